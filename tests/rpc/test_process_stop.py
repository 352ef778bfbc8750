"""process.stop: stop background processes."""

from __future__ import annotations

import pytest

START = {
    "call": {
        "name": "background",
        "arguments": {"action": "start", "command": "echo up; exec sleep 50"},
    }
}


@pytest.fixture
def steps():
    return [START, {"text": "Started."}]


async def test_of_one_session_by_name(rig):
    session = await rig.session(auto_approve=True)
    await rig.turn(session)
    assert rig.live(session).has_background
    assert await rig.call("process.stop", session_id=session) == {"killed": 1}
    assert not rig.live(session).has_background
    assert await rig.call("process.stop", session_id=session) == {"killed": 0}


async def test_without_a_name_only_those_of_this_client(rig):
    mine = await rig.session(auto_approve=True)
    await rig.turn(mine)
    other, _ = await rig.gateway.client()
    theirs = await other.ready_session(auto_approve=True)
    await other.call("prompt.submit", session_id=theirs, text="hi")
    await other.until("message.complete", theirs)
    await rig.call("session.attach", session_id=theirs, role="viewer")
    assert await rig.call("process.stop") == {"killed": 1}
    assert len((await rig.call("process.list", session_id=theirs))["processes"]) == 1
    assert await other.call("process.stop") == {"killed": 1}


async def test_guards(rig):
    await rig.refuses_strangers("process.stop")
    await rig.refuses_wrong_types("process.stop")
