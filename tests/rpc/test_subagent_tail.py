"""subagent.tail: what one said and did last."""

from __future__ import annotations

import pytest

from support.delegation import one_at_work
from tenure.errors import NotFound


async def test_lines_after_a_number(tmp_path):
    async with one_at_work(tmp_path) as (rig, script, which):
        script.gate("goal").open()
        await rig.client.until("message.complete")
        whole = await rig.call("subagent.tail", subagent_id=which)
        assert whole == {
            "lines": ["found it", "[completed]"],
            "next": 2,
            "dropped": 0,
            "status": "completed",
        }
        rest = await rig.call("subagent.tail", subagent_id=which, after=1)
        assert (rest["lines"], rest["next"]) == (["[completed]"], 2)
        (session,) = (one.id for one in rig.gateway.sessions.live())
        one = rig.live(session).work.delegation.all[which]
        one.say("\n".join(f"line {n}" for n in range(300)))
        late = await rig.call("subagent.tail", subagent_id=which, after=1)
        assert (late["dropped"], len(late["lines"]), late["next"]) == (101, 200, 302)
        with pytest.raises(NotFound, match="no sub-agent"):
            await rig.call("subagent.tail", subagent_id="sub_gone")
        await rig.refuses_wrong_types("subagent.tail", subagent_id=which)
