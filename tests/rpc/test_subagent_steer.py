"""subagent.steer: a word before its next step."""

from __future__ import annotations

import pytest

from support.delegation import one_at_work
from tenure.errors import InvalidParams
from tenure.sessions.subagents import STEERED_MAX


async def test_it_is_taken_or_not(tmp_path):
    async with one_at_work(tmp_path) as (rig, script, which):
        told = {"found": True, "subagent_id": which}
        for _ in range(STEERED_MAX):
            assert await rig.call("subagent.steer", subagent_id=which, text="look there") == told
        full = await rig.call("subagent.steer", subagent_id=which, text="and there")
        assert full["found"] is False, "so many may wait"
        script.gate("goal").open()
        await rig.client.until("message.complete")
        assert (await rig.call("subagent.steer", subagent_id=which, text="late"))["found"] is False
        with pytest.raises(InvalidParams, match="text"):
            await rig.call("subagent.steer", subagent_id=which, text="")
        await rig.refuses_wrong_types("subagent.steer", subagent_id=which, text="x")
