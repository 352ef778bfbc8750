"""Case 70: output has limits where it is read, and a call ends with its process, not its pipe."""

from __future__ import annotations

import asyncio
import os
import resource

import pytest

from tenure.testing.clock import ManualClock
from tenure.testing.desk import Desk
from tenure.tools import output
from tenure.tools.shell import Shell


@pytest.fixture
async def desk(tmp_path):
    desk = Desk(tmp_path, dict(os.environ))
    yield desk
    await desk.root.close()


@pytest.mark.slow
async def test_two_gigabytes_leave_memory_disk_and_events_within_limits(desk):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ticks = 0
    over = asyncio.Event()

    async def tick():
        nonlocal ticks
        while not over.is_set():
            ticks += 1
            await asyncio.sleep(0.001)

    ticking = asyncio.ensure_future(tick())
    command = "yes 0123456789012345678901234567890 | head -c 2000000000; echo; echo the end"
    result = await desk.call(Shell(10_000, 300), command=command)
    over.set()
    await ticking
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 64 * 1024
    (spill,) = (desk.base / "spill").iterdir()
    assert spill.stat().st_size == output.SPILL_BYTES_MAX
    assert len("".join(desk.shown)) < output.LIVE_BYTES_MAX + 100
    assert len(result.text) < 10_500
    assert "bytes left out" in result.text
    assert result.text.endswith("the end\n")
    assert ticks > 50  # the loop was never held


async def test_the_timeout_fires_though_output_never_stops(desk):
    clock = desk.clock = ManualClock()
    context, seen = desk.context(), asyncio.Event()
    context.output = lambda _: seen.set()
    call = asyncio.ensure_future(Shell(1_000, 5).call('{"command": "yes"}', context))
    await seen.wait()
    clock.advance(5)
    result = await call
    assert "[ended after 5 s" in result.text
    assert "bytes left out" in result.text


@pytest.mark.parametrize("left", ["sleep 1000 &", "setsid sleep 1000 &", "yes &"])
async def test_a_grandchild_that_keeps_the_pipe_holds_nobody_up(desk, left):
    async with asyncio.timeout(30):
        result = await desk.call(Shell(1_000, 60), command=f"{left} echo done; exit 3")
    assert "exit code 3; 1 process that it left running ended" in result.text
