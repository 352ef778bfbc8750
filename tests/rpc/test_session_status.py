"""session.status: the session in a few lines."""

from __future__ import annotations


async def test_it_says_what_a_person_wants_to_know(rig, tmp_path):
    session = await rig.session(title="Mine")
    text = (await rig.call("session.status", session_id=session))["output"]
    for part in (
        session,
        "Mine",
        "idle, 0 queued, 1 client",
        "scripted:test",
        "(a test)",
        str(tmp_path),
        "ask",
    ):
        assert part in text


async def test_guards(rig):
    await rig.refuses_strangers("session.status")
    await rig.refuses_wrong_types("session.status", session_id="x")
