"""plan.reject: the plan goes back with words; plan mode stays."""

from __future__ import annotations

import pytest

from tenure.errors import AlreadyDecided


def plan(text):
    return {"call": {"name": "plan", "arguments": {"plan": text}}}


@pytest.fixture
def steps():
    return [plan("First."), plan("Second."), {"text": "All right."}]


def results(rig):
    return [m.text for m in rig.gateway.picker.script.requests[-1].messages if m.role == "tool"]


async def test_words_reach_the_agent_and_it_may_plan_again(rig):
    session = await rig.session(plan=True)
    await rig.call("prompt.submit", session_id=session, text="go")
    await rig.client.until("approval.request", session)
    back = await rig.call("plan.reject", session_id=session, text="without a database")
    assert back["on"]
    again = (await rig.client.until("approval.request", session)).payload
    assert again["command"] == "Second."
    await rig.call("approval.respond", session_id=session, choice="deny")
    await rig.client.until("message.complete", session)
    assert results(rig) == [
        "The person wants another plan: without a database. Plan mode stays on.",
        "The person said no to the plan; ask what should be otherwise. Plan mode stays on.",
    ]


async def test_turning_the_mode_off_is_no_approval(rig):
    session = await rig.session(plan=True)
    await rig.call("prompt.submit", session_id=session, text="go")
    await rig.client.until("approval.request", session)
    await rig.call("plan.mode", session_id=session, on=False)
    settled = (await rig.client.until("question.settled", session)).payload
    assert settled["decision"] == "deny"
    await rig.client.until("message.complete", session)
    assert "turned off without approving" in results(rig)[0]
    assert results(rig)[1] == "Plan mode is off; go on.", "what it was offered it still has"


async def test_where_nobody_can_be_asked_the_plan_is_kept(rig):
    session = await rig.session(plan=True, interactive=False, auto_approve=True)
    await rig.turn(session)
    kept = await rig.call("plan.get", session_id=session)
    assert kept["on"] and kept["text"] == "Second." and kept["revision"] == 2
    assert results(rig)[0].startswith("Nobody can be asked here. The plan is kept")


async def test_guards(rig):
    session = await rig.session(plan=True)
    with pytest.raises(AlreadyDecided, match="No plan waits for an answer"):
        await rig.call("plan.reject", session_id=session)
    await rig.refuses_strangers("plan.reject")
    await rig.refuses_wrong_types("plan.reject", session_id="x")
