"""The gateway's side: its guard's end, and the orphans that come to it."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys

import pytest

from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.processes import watch as module
from tenure.processes.guard import Guarded
from tenure.processes.procfs import Stat
from tenure.processes.watch import LOOK_S, OrphanReaper, watch_guard
from tenure.testing.clock import settle


async def test_the_guards_end_is_noticed_once(world):
    reader, writer = os.pipe()
    seen = asyncio.Event()
    scope = world.child("s")
    watch_guard(scope, Guarded(1, reader), seen.set)
    await asyncio.sleep(0)
    assert not seen.is_set()
    os.close(writer)
    await asyncio.wait_for(seen.wait(), 30)
    assert not asyncio.get_running_loop().remove_reader(reader), "or it is told again and again"
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


@pytest.mark.parametrize("lost", [True, False])
async def test_only_a_gateway_without_a_guard_ends_what_is_below_it(root, monkeypatch, lost):
    ended = []
    monkeypatch.setattr(module, "end_descendants", lambda: ended.append(1))
    reader, writer = os.pipe()
    scope = root.child("s")
    told = asyncio.Event()
    watch_guard(scope, Guarded(1, reader), told.set)
    if lost:
        os.close(writer)
        await told.wait()
    await scope.close()
    assert not asyncio.get_running_loop().remove_reader(reader)
    with pytest.raises(OSError):
        os.fstat(reader)
    if not lost:
        os.close(writer)
        await settle()
        assert not told.is_set()
    assert ended == [1] * lost


class Orphans:
    """Children that we have adopted, as the reaper is told."""

    def __init__(self) -> None:
        self.there: list[Stat] = []
        self.reaped: list[int] = []
        self.taken: set[int] = set()

    def add(self, pid, ppid=1, state="Z", start=5):
        self.there.append(Stat(pid, state, ppid, pid, pid, start))

    def waitpid(self, pid, _options):
        if pid in self.taken:
            raise ChildProcessError
        self.reaped.append(pid)
        return pid, 0


@pytest.fixture
def orphans(monkeypatch):
    orphans = Orphans()
    monkeypatch.setattr(module, "children", lambda _: list(orphans.there))
    monkeypatch.setattr(module.os, "waitpid", orphans.waitpid)
    return orphans


async def test_an_orphan_is_reaped_when_it_is_seen_again(root, clock, spawner, orphans):
    reaper = OrphanReaper(root.child("s"), spawner)
    orphans.add(10)
    orphans.add(11, state="S")
    orphans.add(12)
    reaper._arm()
    reaper._arm()
    assert clock.pending == 1
    clock.advance(LOOK_S)
    assert orphans.reaped == [], "its owner may be about to take its status"
    orphans.there = []
    orphans.add(10, ppid=9)
    orphans.add(11, state="S")
    orphans.add(12, start=6)  # another by that pid
    orphans.add(13)
    clock.advance(LOOK_S)
    assert orphans.reaped == [10]
    assert reaper.reaped == 1
    orphans.there = []
    clock.advance(LOOK_S)
    assert clock.pending == 0, "while nothing ends nothing is looked for"


async def test_one_that_may_be_on_its_way_to_its_owner_is_not_reaped(root, clock, spawner, orphans):
    reaper = OrphanReaper(root.child("s"), spawner)
    spawner.starting.add(1)
    orphans.add(10)
    reaper._arm()
    for _ in range(3):
        clock.advance(LOOK_S)
    assert orphans.reaped == [], "nobody knows yet whose it is"
    spawner.starting.add(2)  # it was there before that began
    clock.advance(LOOK_S)
    spawner.starting.discard(1)
    clock.advance(LOOK_S)
    assert orphans.reaped == [10]


async def test_one_whose_owner_was_quicker_is_not_counted(root, clock, spawner, orphans):
    reaper = OrphanReaper(root.child("s"), spawner)
    orphans.taken.add(10)
    orphans.add(10)
    reaper._arm()
    for _ in range(2):
        clock.advance(LOOK_S)
    assert reaper.reaped == 0


async def test_a_reaper_that_was_stopped_looks_no_more(root, clock, spawner, orphans):
    scope = root.child("s")
    reaper = OrphanReaper(scope, spawner)
    reaper._arm()
    assert clock.pending == 1
    await scope.close()
    assert clock.pending == 0
    reaper._arm()  # a signal that was on its way
    assert clock.pending == 0


async def test_a_look_that_is_not_possible_is_made_later(
    root, clock, spawner, orphans, monkeypatch
):
    def refuse(_but):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    reaper = OrphanReaper(root.child("s"), spawner)
    orphans.add(10)
    reaper._arm()
    with monkeypatch.context() as scarce:
        scarce.setattr(module, "children", refuse)
        clock.advance(LOOK_S)
    for _ in range(2):
        clock.advance(LOOK_S)
    assert orphans.reaped == [10]
