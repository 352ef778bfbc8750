"""process.list: the session's background processes."""

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


async def test_what_runs(rig):
    session = await rig.session(auto_approve=True)
    assert await rig.call("process.list", session_id=session) == {"processes": []}
    await rig.turn(session)
    (row,) = (await rig.call("process.list", session_id=session))["processes"]
    assert "sleep 50" in row["command"]


async def test_guards(rig):
    await rig.refuses_strangers("process.list")
    await rig.refuses_wrong_types("process.list")
