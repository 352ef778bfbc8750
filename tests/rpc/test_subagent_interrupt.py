"""subagent.interrupt: one ends, the turn goes on."""

from __future__ import annotations

from support.delegation import one_at_work, results


async def test_it_ends_and_the_turn_goes_on(tmp_path):
    async with one_at_work(tmp_path) as (rig, script, which):
        assert (await rig.call("subagent.interrupt", subagent_id=which))["found"]
        done = await rig.client.until("message.complete")
        assert done.payload["status"] == "complete"
        assert results(script) == ["[1] interrupted (interrupted by the person)\nfound it"]
        nobody = await rig.call("subagent.interrupt", subagent_id="sub_gone")
        assert nobody == {"found": False, "subagent_id": "sub_gone"}
        await rig.refuses_wrong_types("subagent.interrupt", subagent_id=which)
