"""delegation.pause: no more are begun."""

from __future__ import annotations

from support.delegation import one_at_work


async def test_it_is_on_until_it_is_off(tmp_path):
    async with one_at_work(tmp_path) as (rig, _, _which):
        for paused in (True, False):
            assert await rig.call("delegation.pause", paused=paused) == {"paused": paused}
            assert (await rig.call("delegation.status"))["paused"] is paused
        await rig.refuses_wrong_types("delegation.pause", paused=True)
