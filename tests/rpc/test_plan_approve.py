"""plan.approve: the plan as it stands is what the agent carries out."""

from __future__ import annotations

import pytest

from support.restarts import Restarts
from tenure.errors import BadValue, Conflict
from tenure.models.script import Script
from tenure.tools.registry import tools_for

PLAN = {"call": {"name": "plan", "arguments": {"plan": "Touch a file."}}}
TOUCH = {"call": {"name": "shell", "arguments": {"command": "touch made.txt"}}}


@pytest.fixture
def steps():
    return [[TOUCH, PLAN], TOUCH, {"text": "Done."}, {"text": "Next."}]


async def asked(rig, **params):
    session = await rig.session(plan=True, auto_approve=True, **params)
    await rig.call("prompt.submit", session_id=session, text="make a file")
    return session, (await rig.client.until("approval.request", session)).payload


def results(rig):
    return [m.text for m in rig.gateway.picker.script.requests[-1].messages if m.role == "tool"]


async def test_the_edited_plan_is_approved_and_carried_out(rig, tmp_path):
    session, question = await asked(rig)
    assert (question["tool"], question["command"]) == ("plan", "Touch a file.")
    assert (question["choices"], question["revision"]) == (["once", "deny"], 1)
    assert not (tmp_path / "made.txt").exists(), "the call beside it is denied"
    await rig.call("plan.edit", session_id=session, text="Touch it twice.", revision=1)
    (shown,) = rig.live(session).questions.pending
    assert (shown["command"], shown["revision"]) == ("Touch it twice.", 2)
    with pytest.raises(Conflict, match="it is revision 2, not 1"):
        await rig.call("plan.approve", session_id=session, revision=1)
    plan = await rig.call("plan.approve", session_id=session, revision=2)
    assert not plan["on"] and plan["approved_at"] > 0
    done = (await rig.client.until("message.complete", session)).payload
    assert done["denied"] == 1 and (tmp_path / "made.txt").exists()
    assert "as they have edited it:\nTouch it twice." in results(rig)[1]
    assert (await rig.gateway.store.session(session)).settings["plan"]["on"] is False


async def test_a_client_that_knows_only_approvals_can_answer(rig, tmp_path):
    session, question = await asked(rig)
    await rig.call(
        "approval.respond", session_id=session, choice="once", request_id=question["request_id"]
    )
    await rig.client.until("message.complete", session)
    assert (tmp_path / "made.txt").exists()
    assert results(rig)[1] == "The person has approved the plan; carry it out."


async def test_without_a_turn_that_waits_the_next_one_is_told(rig, tmp_path):
    session, _ = await asked(rig)
    await rig.call("session.interrupt", session_id=session)
    await rig.client.until("message.complete", session)
    plan = await rig.call("plan.get", session_id=session)
    assert plan["on"] and plan["text"] == "Touch a file."
    assert not (await rig.call("plan.approve", session_id=session))["on"]
    await rig.turn(session, "go on")
    told = [m.text for m in rig.gateway.picker.script.requests[-1].messages]
    assert any("has approved this plan; carry it out:\nTouch a file." in text for text in told)
    assert (tmp_path / "made.txt").exists()


async def test_what_was_approved_outlives_a_crash(tmp_path):
    """The answer and the end of the mode are one write, and a plan that waits is kept."""
    restarts = Restarts(tmp_path)
    script = Script([PLAN, [{"gate": "never"}]])
    async with restarts.boot(script, tools=tools_for) as gateway:
        client, _ = await gateway.client()
        sessions = [await client.ready_session(plan=True) for _ in range(2)]
        await client.call("plan.edit", session_id=sessions[1], text="Later.")
        await client.call("prompt.submit", session_id=sessions[0], text="go")
        await client.until("approval.request")
        await client.call("plan.approve", session_id=sessions[0])
        await script.gate("never").wait_reached()
        restarts.kill()
    async with restarts.boot(Script([]), tools=tools_for, recover=False) as gateway:
        client, _ = await gateway.client()
        found = []
        for session in sessions:
            await client.call("session.resume", session_id=session, lazy=True)
            plan = await client.call("plan.get", session_id=session)
            found.append((plan["on"], plan["text"]))
        assert found == [(False, "Touch a file."), (True, "Later.")]


async def test_guards(rig):
    session = await rig.session(plan=True)
    with pytest.raises(BadValue, match="There is no plan yet"):
        await rig.call("plan.approve", session_id=session)
    await rig.call("plan.edit", session_id=session, text="One.")
    await rig.call("plan.mode", session_id=session, on=False)
    with pytest.raises(BadValue, match="Plan mode is off"):
        await rig.call("plan.approve", session_id=session)
    await rig.refuses_strangers("plan.approve")
    await rig.refuses_wrong_types("plan.approve", session_id="x")
