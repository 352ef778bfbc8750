"""session.usage: token counters."""

from __future__ import annotations


async def test_counters_grow_with_each_turn(rig):
    session = await rig.session()
    before = await rig.call("session.usage", session_id=session)
    assert (before["calls"], before["total"], before["context_used"]) == (0, 0, 0)
    await rig.turn(session)
    first = await rig.call("session.usage", session_id=session)
    await rig.turn(session)
    second = await rig.call("session.usage", session_id=session)
    assert (first["calls"], second["calls"]) == (1, 2)
    assert second["total"] == second["input"] + second["output"] > first["total"] > 0
    assert first["context_used"] < second["context_used"] < second["total"]
    assert second["context_max"] == 128_000 and second["model"] == "scripted:test"


async def test_guards(rig):
    await rig.refuses_strangers("session.usage")
    await rig.refuses_wrong_types("session.usage", session_id="x")
