"""subagent.list: those that live, and the last that are over."""

from __future__ import annotations

from support.delegation import one_at_work


async def test_they_are_listed_by_session_and_for_all_that_are_attached(tmp_path):
    async with one_at_work(tmp_path) as (rig, script, which):
        (row,) = (await rig.call("subagent.list"))["subagents"]
        assert (row["subagent_id"], row["goal"], row["status"]) == (which, "goal one", "running")
        other = await rig.session()
        assert (await rig.call("subagent.list", session_id=other))["subagents"] == []
        script.gate("goal").open()
        await rig.client.until("message.complete")
        (row,) = (await rig.call("subagent.list"))["subagents"]
        assert row["status"] == "completed"
        await rig.refuses_wrong_types("subagent.list")
