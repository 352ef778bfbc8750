"""session.branch: a new session with this one's history so far."""

from __future__ import annotations

import pytest

from tenure.errors import NotFound, ReadOnly

LOOK = {"call": {"name": "list", "arguments": {"path": "."}}}


async def test_both_go_on_by_themselves(rig):
    session = await rig.session(title="Trunk")
    await rig.turn(session, "one")
    await rig.turn(session, "two")
    made = await rig.call("session.branch", session_id=session, at=2)
    branch = made["session_id"]
    assert (made["parent"], made["title"]) == (session, "Trunk (branch)")
    await rig.turn(branch, "other")
    rows = await rig.gateway.store.history(branch)
    assert [row.message.text for row in rows][:3] == ["one", "First answer.", "other"]
    assert [bool(row.turn_id) for row in rows[:3]] == [False, False, True], "turns are its own"
    assert len(await rig.gateway.store.history(session)) == 4
    row = await rig.gateway.store.session(branch)
    assert row.settings["parent"] == session and row.cwd == rig.live(session).cwd
    named = await rig.call("session.branch", session_id=session, name="Twig")
    assert named["title"] == "Twig"
    assert len(await rig.gateway.store.history(named["session_id"])) == 4


@pytest.mark.parametrize("steps", [[[LOOK], {"text": "Seen."}]])
async def test_a_call_stays_with_its_results(rig, steps):
    session = await rig.session()
    await rig.turn(session, "look")
    made = await rig.call("session.branch", session_id=session, at=2)
    rows = await rig.gateway.store.history(made["session_id"])
    assert [row.message.role for row in rows] == ["user", "assistant", "tool"]
    assert not rows[2].message.is_error, "the one that it had"


async def test_a_viewer_makes_none(rig):
    session = await rig.session()
    await rig.turn(session, "one")
    await rig.call("session.attach", session_id=session, role="viewer")
    with pytest.raises(ReadOnly, match="only watches"):
        await rig.call("session.branch", session_id=session)
    assert len(rig.gateway.sessions.live()) == 1


async def test_its_name_is_one_line(rig):
    session = await rig.session()
    await rig.turn(session, "one")
    made = await rig.call("session.branch", session_id=session, name="a\n b" + "x" * 1000)
    assert made["title"] == ("a b" + "x" * 1000)[:200]


async def test_from_nowhere(rig):
    session = await rig.session()
    with pytest.raises(NotFound, match="no history"):
        await rig.call("session.branch", session_id=session)
    await rig.turn(session, "one")
    with pytest.raises(NotFound, match="no entry 99"):
        await rig.call("session.branch", session_id=session, at=99)
    with pytest.raises(NotFound):
        await rig.call("session.branch", session_id="20200101_000000_00000000")
    await rig.refuses_wrong_types("session.branch", session_id="x")
