"""delegation.status: what waits or runs, and the limits."""

from __future__ import annotations

from support.delegation import one_at_work


async def test_what_runs_and_may_run(tmp_path):
    async with one_at_work(tmp_path) as (rig, script, which):
        status = await rig.call("delegation.status")
        assert [row["subagent_id"] for row in status["active"]] == [which]
        limits = (status["paused"], status["max_spawn_depth"], status["max_concurrent_children"])
        assert limits == (False, 2, 4)
        script.gate("goal").open()
        await rig.client.until("message.complete")
        assert (await rig.call("delegation.status"))["active"] == []
        await rig.refuses_wrong_types("delegation.status")
