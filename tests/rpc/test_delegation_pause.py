"""delegation.pause: no more are begun."""

from __future__ import annotations

import pytest

from support.delegation import one_at_work
from tenure.errors import ReadOnly


async def test_it_is_on_until_it_is_off(tmp_path):
    async with one_at_work(tmp_path) as (rig, _, _which):
        for paused in (True, False):
            assert await rig.call("delegation.pause", paused=paused) == {"paused": paused}
            assert (await rig.call("delegation.status"))["paused"] is paused
        await rig.refuses_wrong_types("delegation.pause", paused=True)


async def test_whoever_only_watches_one_of_several_pauses_none(tmp_path):
    async with one_at_work(tmp_path) as (rig, _, _which):
        (delegating,) = rig.gateway.sessions.live()
        watched = await rig.session()
        await rig.call("session.attach", session_id=watched, role="viewer")
        with pytest.raises(ReadOnly, match="only watches"):
            await rig.call("delegation.pause", paused=True)
        assert not delegating.work.delegation.paused
