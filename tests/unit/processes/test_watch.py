"""The gateway's side: its guard's end, and the orphans that come to it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.processes.guard import Guarded
from tenure.processes.watch import OrphanReaper, watch_guard


async def test_the_guards_end_is_noticed_once(world):
    reader, writer = os.pipe()
    seen = asyncio.Event()
    scope = world.child("s")
    watch_guard(scope, Guarded(1, reader), seen.set)
    await asyncio.sleep(0)
    assert not seen.is_set()
    os.close(writer)
    await asyncio.wait_for(seen.wait(), 5)
    await scope.close()


async def test_a_direct_child_is_left_to_its_owner(world, spawner):
    reaper = OrphanReaper(world, spawner)
    process = await spawner.spawn(world, ["sh", "-c", "exit 4"])
    assert await process.wait() == 4
    other = subprocess.Popen(["sh", "-c", "exit 5"])
    assert other.wait() == 5
    assert reaper.reaped == 0


async def test_the_previous_handler_comes_back(spawner):
    before = signal.getsignal(signal.SIGCHLD)
    root = Scope.root("r", SystemClock())
    OrphanReaper(root, spawner)
    assert signal.getsignal(signal.SIGCHLD) is not before
    await root.close()
    assert signal.getsignal(signal.SIGCHLD) == before


ADOPTS = """
import asyncio, os, sys
sys.path.insert(0, %r)
from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.processes.guard import become_subreaper
from tenure.processes.spawn import Spawner
from tenure.processes.watch import OrphanReaper, children
become_subreaper()
async def main():
    root = Scope.root("r", SystemClock())
    spawner = Spawner(instance="i", environ=os.environ, clock=root.clock)
    reaper = OrphanReaper(root, spawner)
    batch = "for i in 1 2 3 4 5 6 7 8 9 10; do (setsid sh -c 'exit 3' &); done"
    for _ in range(20):
        process = await spawner.spawn(root, ["sh", "-c", batch])
        assert await process.wait() == 0
        await process.stop()
    async with asyncio.timeout(30):
        while children(lambda pid: False):
            await asyncio.sleep(0.01)
    await root.close()
    print("zombies 0 reaped", reaper.reaped)
if sys.argv[1] == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""


def run_adopting(start, loop: str) -> None:
    source = ADOPTS % os.path.dirname(os.path.dirname(sys.modules["tenure"].__file__))
    process = start(source, loop)
    out = process.stdout.read().decode().split()
    assert process.wait(30) == 0
    assert out[:3] == ["zombies", "0", "reaped"]
    assert int(out[3]) >= 150  # the rest was reaped by shells that still ran


def test_200_double_forks_leave_no_zombie(start):
    run_adopting(start, "asyncio")


def test_200_double_forks_leave_no_zombie_under_uvloop(start):
    run_adopting(start, "uvloop")
