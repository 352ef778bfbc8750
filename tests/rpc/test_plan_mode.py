"""plan.mode: nothing may be changed from the next call on, or it may again."""

from __future__ import annotations

import pytest

TOUCH = {"call": {"name": "shell", "arguments": {"command": "touch made.txt"}}}


@pytest.fixture
def steps():
    return [TOUCH, {"text": "Not done."}, TOUCH, {"text": "Done."}]


async def test_it_holds_whatever_else_is_allowed(rig, tmp_path):
    session = await rig.session(auto_approve=True)
    on = await rig.call("plan.mode", session_id=session, on=True)
    assert on["on"]
    told = (await rig.client.until("plan.changed", session)).payload
    assert told == on
    assert (await rig.turn(session))["denied"] == 1
    assert not (tmp_path / "made.txt").exists()
    assert not (await rig.call("plan.mode", session_id=session, on=False))["on"]
    assert (await rig.turn(session))["denied"] == 0
    assert (tmp_path / "made.txt").exists()


@pytest.mark.parametrize("steps", [[[{"gate": "g"}, TOUCH], {"text": "So."}, {"text": "Done."}]])
async def test_in_the_middle_of_a_turn_it_counts_at_once(rig, tmp_path, steps):
    script = rig.gateway.picker.script
    session = await rig.session(auto_approve=True)
    await rig.call("prompt.submit", session_id=session, text="go")
    await script.gate("g").wait_reached()
    await rig.call("plan.mode", session_id=session, on=True)
    script.gate("g").open()
    done = (await rig.client.until("message.complete", session)).payload
    assert done["denied"] == 1 and not (tmp_path / "made.txt").exists()
    offered = [[tool.name for tool in request.tools] for request in script.requests]
    assert "plan" not in offered[0] and "plan" in offered[1], "a way out is offered"
    await rig.turn(session)
    assert "Plan mode is on" in script.requests[-1].system


async def test_guards(rig):
    await rig.refuses_strangers("plan.mode", on=True)
    await rig.refuses_wrong_types("plan.mode", session_id="x", on=True)
