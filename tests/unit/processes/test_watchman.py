"""Who looks after what runs: accounts by owner, limits, and what nobody holds."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from support.boxes import needs_bwrap
from tenure.clock import SystemClock
from tenure.processes import watchman
from tenure.processes.accounts import Account, Look
from tenure.processes.containment import LABEL
from tenure.processes.procfs import Stat, all_stats, read_stat
from tenure.processes.quotas import Ceiling
from tenure.processes.spawn import Spawner, Tree
from tenure.processes.watchman import PAUSE_MAX_S, Found, Watchman, _over
from tenure.testing.clock import ManualClock, settle

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


# --- what it makes of a look ----------------------------------------------------------------------


class Scripted(Watchman):
    """Looks say what they are told to say; what would be ended is noted."""

    def __init__(self, *args) -> None:
        super().__init__(*args)
        self.looks: list[Look | Exception] = []
        self.ended: list[object] = []
        self.takes_s = 0.0
        self.at_look = lambda: None

    async def look(self):
        self.at_look()
        self._clock.advance(self.takes_s)
        found = self.looks.pop(0) if self.looks else Look({}, {}, ())
        if isinstance(found, Exception):
            raise found
        return found

    async def _end(self, strays):
        self.ended += [stat.pid for stat in strays]
        return [Found("stray", "process", "", stat.pid, True) for stat in strays]


def scripted(root, spawner, clock, *looks):
    one = Scripted(root.child("watch"), spawner, clock, lambda: NONE)
    one.looks = list(looks)
    return one


def seen(*pids, start=5):
    return Look({}, {}, tuple(Stat(pid, "S", 1, pid, pid, start) for pid in pids))


async def test_a_stray_is_ended_when_it_is_seen_again_whatever_is_held(root, clock, spawner):
    """One that is seen once may be just being started, or just being ended."""
    one = scripted(root, spawner, clock, seen(10, 11), seen(10, 12), seen(11, start=6))
    one.begin()
    await settle()
    assert len(one.looks) == 3, "nothing runs, so nobody looks"
    spawner.begun()  # something was started, and has ended already
    await settle()
    assert one.ended == []
    clock.advance(0.5)
    await settle()
    assert one.ended == [10]
    clock.advance(PAUSE_MAX_S)
    await settle()
    assert one.ended == [10]
    assert one.found == 1


async def test_a_look_that_fails_is_not_the_last(root, clock, spawner, caplog):
    """There may be no thread or descriptor left: just then whoever has taken them must be found."""
    one = scripted(root, spawner, clock, OSError("no descriptor"), RuntimeError("no thread"))
    one.looks += [seen(10), seen(10)]
    one._suspects.add((1, 1))
    one.begin()
    left = []
    for pause_s in (0.5, 1.0, 4.0):
        await settle()
        left.append(len(one.looks))
        clock.advance(pause_s)
    await settle()
    assert left == [3, 2, 1]
    assert one.ended == [10]
    assert "it is tried again" in caplog.text


async def test_looks_that_take_long_come_more_rarely(root, clock, spawner):
    one = scripted(root, spawner, clock, seen(10))
    one.takes_s = 3.0
    one.begin()
    await settle()
    spawner.begun()
    await settle()
    assert clock.due_in(30.0) == 1


async def test_what_begins_during_a_look_is_looked_at_soon(root, clock, spawner):
    one = scripted(root, spawner, clock, *map(seen, range(10, 19)))
    one._suspects.add((1, 1))
    one._begun.set()
    one.begin()
    await settle()
    assert clock.due_in(0.5) == 1
    clock.advance(0.5)
    await settle()
    assert clock.due_in(1.0) == 1
    one.at_look = one._begun.set
    clock.advance(1.0)
    await settle()
    assert clock.due_in(0.5) == 1


async def test_a_verification_ends_what_it_has_seen_twice(root, clock, spawner):
    one = scripted(root, spawner, clock, seen(10, 11), seen(11, 12))
    assert [found.pid for found in await one.verify(list)] == [11]
    one.looks = [seen(10), seen(10, start=6)]
    assert await one.verify(list) == []


class Ended:
    """A process that a watchman may end."""

    def __init__(self, pid, quota=None):
        self.pid, self.label, self.verdict, self.quota, self.wraps = pid, "", "", quota, False
        self.looks = 0

    def members(self):
        self.looks += 1
        assert self.looks < 1_000, "it goes on and on"
        return [Stat(self.pid * 1_000 + n, "S", 1, 1, 1, 5) for n in range(self.looks)]


def tree(number, owner, process=None):
    one = Tree(number, "", owner)
    one.process = process
    return one


@pytest.fixture
def over(root, spawner, clock, monkeypatch):
    """A watchman, and whom it ends."""
    ended = []
    monkeypatch.setattr(watchman, "_end_now", ended.append)
    return Watchman(root.child("watch"), spawner, clock, lambda: NONE), ended


async def test_of_an_owner_the_largest_is_ended_and_nobody_elses(spawner, over):
    one, ended = over
    small, large, others = (Ended(pid) for pid in (1, 2, 3))
    for n, (owner, process) in enumerate((("a", small), ("a", large), ("b", others))):
        spawner.trees[n] = tree(n, owner, process)
    use = {0: Account(9, rss_bytes=1), 1: Account(2, rss_bytes=2), 2: Account(99, rss_bytes=99)}
    now = Look({}, use, ())
    await one._end_largest("a", now, "too much", by_memory=True)
    await one._end_largest("a", now, "too many", by_memory=False)
    await one._end_largest("a", Look({}, {}, ()), "it was not there yet", by_memory=False)
    assert ended == [large, small, small]
    assert (large.verdict, small.verdict) == ("too much", "too many")
    spawner.trees.clear()
    await one._end_largest("a", now, "all have ended meanwhile", by_memory=True)
    await one._end_writer("a", now, "all have ended meanwhile")
    assert len(ended) == 3


async def test_who_has_written_most_is_ended_and_nobody_elses(spawner, over, monkeypatch):
    one, ended = over
    first, second, others = (Ended(pid) for pid in (1, 2, 3))
    for n, (owner, process) in enumerate((("a", first), ("a", second), ("b", others))):
        spawner.trees[n] = tree(n, owner, process)
    monkeypatch.setattr(watchman, "written_bytes", sum)
    now = Look({}, {}, (), {10: 0, 5: 1, 1_000: 2})
    await one._end_writer("a", now, "full")
    await one._end_writer("a", Look({}, {}, ()), "full")
    assert ended == [first, second]


async def test_one_that_is_just_being_started_cannot_be_ended_yet(over):
    one, ended = over
    await one._end_tree(tree(1, "a"), "too much")
    assert ended == []


class Freezer:
    """A group that notes how it stands."""

    def __init__(self):
        self.group, self.orders = self, []

    def freeze(self, *, frozen):
        self.orders.append(frozen)


def test_a_group_goes_on_whatever_becomes_of_the_end(monkeypatch):
    group = Freezer()
    monkeypatch.setattr(watchman, "_stop_and_end", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        watchman._end_now(Ended(1, group))
    assert group.orders == [True, False]


def test_all_of_a_swarm_is_stopped_before_any_of_it_is_ended(monkeypatch):
    sent = []
    monkeypatch.setattr(watchman, "send_signal", lambda *what: sent.append(what))
    monkeypatch.setattr(watchman, "end_all", lambda *_: sent.append("end"))
    process = Ended(1)
    watchman._stop_and_end(process)
    assert sent.pop() == "end"
    assert {signum for _, signum in sent} == {signal.SIGSTOP}
    assert [stat.pid for stat, _ in sent] == [1_000 + n for n in range(watchman.FREEZES_MAX)]


def test_only_what_is_limited_and_not_kept_by_the_kernel_is_over():
    large = Account(processes=500, rss_bytes=500 << 20)
    assert _over(large, NONE) == ""
    assert "session_memory_mib" in _over(large, Ceiling(memory_mib=100))
    assert _over(large, Ceiling(memory_mib=100), frozenset({"memory"})) == ""
    assert "session_processes" in _over(large, Ceiling(processes=100), frozenset({"pids"}))


class Noting(ManualClock):
    """Its sleeps are over at once, and counted; something may happen in each."""

    def __init__(self) -> None:
        super().__init__()
        self.slept = 0
        self.meanwhile = lambda: None

    async def sleep(self, delay_s):
        self.slept += 1
        assert self.slept < 1_000, "it goes on and on"
        self.meanwhile()


async def test_what_is_held_in_vain_is_looked_at_only_so_often(root, spawner):
    clock = Noting()
    one = keep(root, spawner, clock=clock)
    first = root.own("thing", None, lambda _: None, label="first", pid=2**22 + 1)
    second = root.own("thing", None, lambda _: None, label="second", pid=os.getpid())

    async def told():
        clock.slept = 0
        found = await one._held_in_vain(root.census)
        return [(difference.kind, difference.what) for difference in found]

    assert await told() == [("gone", "thing first")]
    assert clock.slept == watchman.NOTICE_LOOKS

    def dies():
        second.pid = 2**22 + 1

    clock.meanwhile = dies
    assert await told() == [("gone", "thing first")], "the other is given its time, too"
    second.pid = os.getpid()

    def notices():
        first.pid = None

    clock.meanwhile = notices
    assert await told() == []
    assert clock.slept == 1


async def test_who_is_over_a_limit_is_ended_and_others_are_looked_at_closer(root, spawner, clock):
    done = []

    class Noted(Watchman):
        async def _end_largest(self, owner, now, told, *, by_memory):
            done.append((owner, by_memory))

        async def _look_closer(self, quota, now):
            done.append(quota)

    kept = SimpleNamespace(kernel=frozenset({"memory"}))
    spawner.quotas = {"b": kept}
    large = Account(1, rss_bytes=500 << 20)
    now = Look({"a": Account(11), "b": large, "c": large, "d": Account(1)}, {}, ())
    ceiling = Ceiling(processes=10, memory_mib=100)
    await Noted(root.child("watch"), spawner, clock, lambda: ceiling)._enforce(now)
    assert done == [("a", False), kept, ("c", True)]


def test_a_box_dies_by_its_first_process(monkeypatch):
    sent, box = [], Ended(1)
    box.wraps = True
    within = [Stat(pid, "S", ppid, 1, 1, 5) for pid, ppid in ((7, 1), (8, 1), (9, 8), (10, 5))]
    monkeypatch.setattr(watchman, "all_stats", lambda: within)
    monkeypatch.setattr(watchman, "is_namespace_init", lambda pid: pid in {8, 9, 10})
    monkeypatch.setattr(
        watchman, "send_signal", lambda stat, signum: sent.append((stat.pid, signum))
    )
    monkeypatch.setattr(watchman, "end_all", lambda *_: None)
    watchman._stop_and_end(box)
    assert sent[0] == (8, signal.SIGKILL)
    assert {signum for _, signum in sent[1:]} == {signal.SIGSTOP}
