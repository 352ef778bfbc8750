"""Who looks after what runs: accounts by owner, limits, and what nobody holds."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from support.boxes import needs_bwrap
from tenure.clock import SystemClock
from tenure.processes import watchman
from tenure.processes.accounts import Account
from tenure.processes.containment import LABEL
from tenure.processes.procfs import all_stats, read_stat
from tenure.processes.quotas import Ceiling
from tenure.processes.spawn import Spawner
from tenure.processes.watchman import PAUSE_MAX_S, Watchman, _over
from tenure.testing.clock import ManualClock

DAEMON = "env -i setsid sh -c 'echo $$ > {}; exec sleep 600' & "


@pytest.fixture
def spawner():
    return Spawner(instance="test-0", environ=dict(os.environ), clock=SystemClock())


NONE = Ceiling()


def keep(root, spawner, ceiling=NONE, clock=None):
    return Watchman(root.child("watch"), spawner, clock or SystemClock(), lambda: ceiling)


async def file(path):
    async with asyncio.timeout(30):
        while not (path.exists() and path.read_text().strip()):
            await asyncio.sleep(0.01)
    return path.read_text().strip()


def alive(pid):
    stat = read_stat(pid)
    return stat is not None and not stat.gone


async def test_what_each_owner_uses(root, spawner):
    watchman = keep(root, spawner)
    for owner in ("one", "one", "two"):
        await spawner.spawn(root, ["sleep", "600"], owner=owner)
    look = await watchman.look()
    assert {owner: account.processes for owner, account in look.accounts.items()} == {
        "one": 2,
        "two": 1,
    }
    assert look.accounts["one"].fds == 6
    assert look.accounts["one"].rss_bytes > 2 * 100_000
    assert look.strays == ()


async def test_a_daemon_with_an_empty_environment_belongs_to_its_tree_and_ends_with_it(
    root, spawner, tmp_path
):
    watchman = keep(root, spawner)
    other = await spawner.spawn(root, ["sleep", "600"], owner="two")
    process = await spawner.spawn(
        root, ["sh", "-c", DAEMON.format(tmp_path / "pid") + "sleep 600"], owner="one"
    )
    daemon = int(await file(tmp_path / "pid"))
    look = await watchman.look()
    assert look.accounts["one"].processes == 3
    assert look.strays == ()
    await process.stop()
    assert not alive(daemon)
    assert alive(other.pid)
    assert (await watchman.look()).accounts.keys() == {"two"}
    assert spawner.trees.keys() == {tree.number for tree in spawner.trees.values()}


async def test_a_child_that_cannot_start_is_no_tree(root, spawner):
    from tenure.errors import ProcessError, ScopeClosed

    with pytest.raises(ProcessError):
        await spawner.spawn(root, ["/no/such/program"])
    closed = root.child("closed")
    await closed.close()
    with pytest.raises(ScopeClosed):
        await spawner.spawn(closed, ["sleep", "600"])
    assert spawner.trees == {}


async def test_memory_over_the_limit_ends_the_largest_and_tells(root, spawner, tmp_path):
    watchman = keep(root, spawner, Ceiling(memory_mib=200))
    watchman.begin()
    small = await spawner.spawn(root, ["sleep", "600"], owner="one")
    eater = f"x = bytearray(400 << 20); open({str(tmp_path / 'ate')!r}, 'w').write('x'); input()"
    large = await spawner.spawn(root, [sys.executable, "-c", eater], owner="one", stdin="pipe")
    elsewhere = await spawner.spawn(root, [sys.executable, "-c", eater], owner="", stdin="pipe")
    async with asyncio.timeout(30):
        assert await large.wait() == -9
    assert "the limit is 200 MiB (limits.session_memory_mib)" in large.verdict
    assert small.returncode is None
    assert small.verdict == ""
    async with asyncio.timeout(30):
        await elsewhere.wait()


def test_of_a_swarm_that_also_eats_memory_the_number_is_told():
    ceiling = Ceiling(memory_mib=100, processes=30)
    swarm = Account(processes=31, rss_bytes=200 << 20)
    assert "limits.session_processes" in _over(swarm, ceiling)
    assert "limits.session_memory_mib" in _over(swarm._replace(processes=30), ceiling)
    assert _over(Account(processes=30, rss_bytes=100 << 20), ceiling) == ""


@needs_bwrap
async def test_a_box_is_ended_by_its_first_process_first(root, spawner, monkeypatch):
    argv = ["bwrap", "--bind", "/", "/", "--unshare-pid", "--", "sh", "-c", "sleep 600 & sleep 600"]
    box = await spawner.spawn(root, argv)
    box.wraps = True
    async with asyncio.timeout(30):
        while await box.count_left() < 2:
            await asyncio.sleep(0.01)
    within = {s.pid for s in box.members()} - {box.pid}
    (first,) = [stat for stat in all_stats() if stat.ppid == box.pid]
    sent = []
    plain = watchman.send_signal
    monkeypatch.setattr(
        watchman,
        "send_signal",
        lambda stat, signum: (sent.append((stat.pid, signum)), plain(stat, signum)),
    )
    await asyncio.to_thread(watchman._end_now, box)
    assert sent[0] == (first.pid, signal.SIGKILL)
    assert not any(map(alive, within))


async def test_too_many_processes_are_ended_together(root, spawner, tmp_path):
    watchman = keep(root, spawner, Ceiling(processes=30))
    watchman.begin()
    small = await spawner.spawn(root, ["sleep", "600"], owner="one")
    swarm = "for n in $(seq 200); do sleep 600 & done; wait"
    large = await spawner.spawn(root, ["bash", "-c", swarm], owner="one")
    async with asyncio.timeout(30):
        assert await large.wait() == -9
    assert "the limit is 30 (limits.session_processes)" in large.verdict
    await large.stop()
    assert (await watchman.look()).accounts["one"].processes == 1
    assert small.returncode is None


def stray(mark):
    label = f"test-0/gone/{mark}-12345"
    return subprocess.Popen(
        ["sleep", "600"], env={**os.environ, LABEL: label}, start_new_session=True
    )


async def test_what_nobody_holds_is_ended_and_nothing_else(root, spawner):
    watchman = keep(root, spawner)
    held = await spawner.spawn(root, ["sleep", "600"], owner="one")
    lost, foreign = stray(spawner.mark), stray("0000000a")
    try:
        found = await watchman.verify(root.census)
        assert [(one.kind, one.pid, one.healed) for one in found] == [("stray", lost.pid, True)]
        assert lost.wait(30) == -15
        assert alive(held.pid)
        assert alive(foreign.pid)
        assert await watchman.verify(root.census) == []
        assert watchman.found == 1
    finally:
        for process in (lost, foreign):
            process.kill()
            process.wait()


class Impatient(ManualClock):
    """Its sleeps are over at once, until the longest has come."""

    def __init__(self) -> None:
        super().__init__()  # a look takes no time by it, however busy the machine is
        self.pauses: list[float] = []
        self.rested = asyncio.Event()

    async def sleep(self, delay_s):
        self.pauses.append(delay_s)
        if delay_s >= PAUSE_MAX_S:
            self.rested.set()
            await asyncio.Event().wait()


async def test_it_looks_while_something_runs_and_ever_more_rarely(root, spawner):
    clock = Impatient()
    watchman = keep(root, spawner, clock=clock)
    watchman.begin()
    await asyncio.sleep(0)
    assert clock.pauses == [], "nothing runs, so nothing wakes up"
    await spawner.spawn(root, ["sleep", "600"], owner="one")
    async with asyncio.timeout(30):
        await clock.rested.wait()
    assert clock.pauses[-7:] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0]


async def test_an_account_of_what_has_gone_meanwhile_is_empty():
    from tenure.processes.accounts import _use_of

    assert _use_of(2**22 + 1) == Account()
