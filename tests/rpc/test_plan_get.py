"""plan.get: the plan of a session, and whether plan mode is on."""

from __future__ import annotations


async def test_a_session_begins_with_or_without_it(rig):
    session = await rig.session()
    nothing = {"on": False, "text": "", "revision": 0, "approved_at": 0.0}
    assert await rig.call("plan.get", session_id=session) == nothing
    planning = await rig.session(plan=True)
    assert await rig.call("plan.get", session_id=planning) == {**nothing, "on": True}
    shown = {"on": True, "revision": 0, "approved_at": 0.0}
    assert rig.live(planning).info()["plan"] == shown, "its text may be long"
    status = await rig.call("session.status", session_id=planning)
    assert "nothing is changed until a plan is approved" in status["output"]


async def test_guards(rig):
    await rig.refuses_strangers("plan.get")
    await rig.refuses_wrong_types("plan.get", session_id="x")
