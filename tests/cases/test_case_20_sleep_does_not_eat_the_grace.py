"""Case 20: the grace is counted while the machine is awake."""

from __future__ import annotations

import pytest

from support.idle import IDLE_S, PERIOD_S, idle_gateway, live, pass_time
from tenure.testing.clock import settle


@pytest.mark.parametrize("returns", [True, False])
async def test_a_laptop_that_slept_finds_its_session(tmp_path, returns):
    async with idle_gateway(tmp_path) as gw:
        client, scope = await gw.client()
        sid = await client.ready_session()
        session = gw.sessions.get(sid)
        await scope.close()
        await settle()
        gw.clock.suspend(3600.0)
        await pass_time(gw, IDLE_S - 1)
        assert gw.sessions.get(sid) is session
        if returns:
            back, _ = await gw.client()
            resumed = await back.call("session.resume", session_id=sid)
            assert resumed["epoch"] == 1
        await pass_time(gw, 2 * PERIOD_S)
        assert live(gw) == ([sid] if returns else [])


async def test_the_system_clock_that_is_used_stands_still_in_sleep():
    """`time.monotonic` is CLOCK_MONOTONIC, which does not count suspension (CLOCK_BOOTTIME does)."""
    import time

    from tenure.clock import SystemClock

    assert time.get_clock_info("monotonic").implementation == "clock_gettime(CLOCK_MONOTONIC)"
    before = time.clock_gettime(time.CLOCK_MONOTONIC)
    assert before <= SystemClock().monotonic() <= time.clock_gettime(time.CLOCK_MONOTONIC)
