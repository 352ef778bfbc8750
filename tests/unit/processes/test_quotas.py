"""What the children of a session may use, and the group that they are in."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.cgroup import Hierarchy, hierarchy
from tenure.clock import SystemClock
from tenure.config import LimitsConfig
from tenure.errors import ProcessError
from tenure.processes import quotas as module, spawn
from tenure.processes.cgroups import Group, Place
from tenure.processes.procfs import Stat, read_stat
from tenure.processes.quotas import Arriving, Ceiling, Quotas, ceiling_of, disk_bytes
from tenure.processes.spawn import Spawner
from tenure.processes.watchman import Watchman
from tenure.testing.clock import ManualClock, settle
from tenure.testing.waiting import until

MIB = 1 << 20
NO_PLACE = Place("", "a test")


@pytest.fixture(params=["real", "double"])
def there(request) -> Hierarchy:
    return hierarchy(request.param)


@pytest.fixture
def spawner():
    return Spawner(instance="test-0", environ=dict(os.environ), clock=SystemClock())


def limited(spawner: Spawner, ceiling: Ceiling, there: Hierarchy | None = None) -> Quotas:
    if there is None:
        quotas = Quotas("test-0", lambda: ceiling, lambda: NO_PLACE)
    else:
        instance = f"{os.getpid():07x}-00000000"
        quotas = Quotas(instance, lambda: ceiling, lambda: Place(there.place), there.files)
    spawner.quotas = quotas
    return quotas


async def run(spawner, scope, *argv, owner="one"):
    process = await spawner.spawn(scope, argv, owner=owner, stderr="merge")
    said = b""
    async with asyncio.timeout(30):
        while piece := await process.stdout.read():
            said += piece
        await process.wait()
    await process.stop()
    return process, said.decode()


@asynccontextmanager
async def looked_after(root, spawner, ceiling) -> AsyncIterator[Watchman]:
    watchman = Watchman(root.child("watch"), spawner, SystemClock(), lambda: ceiling)
    watchman.begin()
    yield watchman


def group_names(there: Hierarchy) -> list[str]:
    return [name for name in there.files.names(there.place) if f"{os.getpid():07x}-" in name]


async def grouped(quotas, count, owner="one"):
    """The session's group, once so many are in it."""
    await until(lambda: (g := quotas.get(owner).group) and len(g.members()) == count)
    return quotas.get(owner).group


# --- limits of each process -----------------------------------------------------------------------


async def test_a_process_of_a_session_has_so_many_files_and_cannot_have_more(root, spawner):
    limited(spawner, Ceiling(open_files=99))
    session = root.child("session:one")
    process, said = await run(spawner, session, "sh", "-c", "sleep 0.05; ulimit -n; ulimit -Hn")
    assert said == "99\n99\n"
    assert process.open_files == 99


async def test_what_is_not_below_the_session_keeps_its_own(root, spawner):
    quotas = limited(spawner, Ceiling(open_files=99, disk_mib=1))
    await run(spawner, root.child("session:one"), "true")
    for scope, owner in ((root.child("browsers"), ""), (root.child("hooks"), "one")):
        _, said = await run(spawner, scope, "sh", "-c", "sleep 0.05; ulimit -n", owner=owner)
        assert said != "99\n"
    assert quotas.get("browsers") is None


def test_a_limit_never_raises_what_there_is():
    process = subprocess.Popen(["sleep", "600"])
    try:
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (20, 50))
        module._bound(process.pid, resource.RLIMIT_NOFILE, 99)
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (50, 50)
        module._bound(process.pid, resource.RLIMIT_NOFILE, 0)
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (50, 50)
        module._bound(2**22 + 1, resource.RLIMIT_NOFILE, 99)  # over already
    finally:
        process.kill()
        process.wait()


async def test_a_file_that_grows_too_large_ends_its_writer_and_that_is_told(
    root, spawner, tmp_path
):
    limited(spawner, Ceiling(disk_mib=2))
    session, at = root.child("session:one"), tmp_path / "big"
    command = f"sleep 0.05; exec head -c 9M /dev/zero > {at}"
    for argv in (("sh", "-c", command), ("sh", "-c", f"{command.replace('exec ', '')}; exit $?")):
        process, _ = await run(spawner, session, *argv)
        assert process.verdict == "a file grew to 2 MiB, the limit (limits.session_disk_mib)"
        assert at.stat().st_size == 2 * MIB


async def test_an_end_by_hand_is_no_limits(root, spawner, there):
    limited(spawner, Ceiling(memory_mib=100, disk_mib=100), there)
    process = await spawner.spawn(root.child("session:one"), ["sleep", "600"], owner="one")
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    assert process.verdict == ""


# --- groups ---------------------------------------------------------------------------------------


async def test_a_session_has_one_group_from_its_first_child_to_its_end(root, spawner, there):
    quotas = limited(spawner, Ceiling(), there)
    session = root.child("session:one")
    assert group_names(there) == []
    first = await spawner.spawn(session.child("turn"), ["sleep", "600"], owner="one")
    second = await spawner.spawn(session, ["sleep", "600"], owner="one")
    other = await spawner.spawn(root.child("session:two"), ["sleep", "600"], owner="two")
    await grouped(quotas, 1, "two")
    assert (await grouped(quotas, 2)).members() == {first.pid, second.pid}
    assert len(group_names(there)) == 2
    assert "limits" in [entry.kind for entry in session.census()]
    await first.stop()
    await second.stop()
    assert len(group_names(there)) == 2, "it stays for the next child"
    await session.close()
    assert [name.endswith(".two") for name in group_names(there)] == [True]
    assert quotas.get("one") is None
    assert other.returncode is None


async def test_the_group_goes_after_what_was_started_before_it(root, spawner, there):
    """A turn's scope is older than the group: its children still end politely."""
    quotas = limited(spawner, Ceiling(), there)
    session = root.child("session:one")
    turn = session.child("turn")
    script = "trap 'echo polite; exit 0' INT TERM; echo up; while :; do sleep 0.01; done"
    process = await spawner.spawn(turn, ["sh", "-c", script], owner="one")
    assert await process.stdout.read() == b"up\n"
    await until(lambda: quotas.get("one").group)
    closing = asyncio.ensure_future(session.close())
    assert await process.stdout.read() == b"polite\n"
    await closing
    assert process.returncode == 0
    assert group_names(there) == []


async def test_a_swarm_is_in_the_group_whatever_it_does(root, spawner, there):
    quotas = limited(spawner, Ceiling(), there)
    session = root.child("session:one")
    swarm = "for n in 1 2 3; do env -i setsid sh -c 'sleep 600 & sleep 600' & done; echo up; wait"
    process = await spawner.spawn(session, ["sh", "-c", f"sleep 0.05; {swarm}"], owner="one")
    assert await process.stdout.read() == b"up\n"
    group = await grouped(quotas, 10)
    members = group.members()
    await session.close()
    assert all((stat := read_stat(pid)) is None or stat.gone for pid in members)
    assert group_names(there) == []


async def test_what_was_forked_before_is_taken_in_and_limited(root, spawner, there, monkeypatch):
    quotas = limited(spawner, Ceiling(open_files=99), there)
    session, plain = root.child("session:one"), module.Quota.bind

    def late(quota, pid):
        while not _has_children(pid):
            pass
        plain(quota, pid)

    monkeypatch.setattr(module.Quota, "bind", late)
    process = await spawner.spawn(session, ["sh", "-c", "sleep 600 & wait"], owner="one")
    (child,) = (await grouped(quotas, 2)).members() - {process.pid}
    with open(f"/proc/{child}/limits") as file:
        assert "Max open files            99 " in file.read()


async def test_what_has_detached_itself_before_is_taken_in(root, spawner, there):
    quotas = limited(spawner, Ceiling(), there)
    daemon = "env -i setsid sh -c 'sleep 600 & sleep 600' & exec sleep 600"
    process = await spawner.spawn(root.child("session:one"), ["sh", "-c", daemon], owner="one")
    assert process.pid in (await grouped(quotas, 4)).members()


async def test_a_quick_command_is_in_no_group(root, there):
    """A move takes longer than it does."""
    clock = ManualClock()
    spawner = Spawner(instance="test-0", environ=dict(os.environ), clock=clock)
    quotas, session = limited(spawner, Ceiling(), there), root.child("session:one")
    await run(spawner, session, "true")
    waiting = clock.pending
    clock.advance(spawn.ADMIT_AFTER_S)
    assert clock.pending < waiting, "it was to be moved now"
    quota = quotas.get("one")
    assert not quota._arriving and quota._admitting is None and quota.group is None
    assert group_names(there) == []


async def test_a_close_waits_for_who_is_being_moved(root, spawner, there, monkeypatch):
    limited(spawner, Ceiling(), there)
    session, plain, begun = root.child("session:one"), module.Quota.admit, asyncio.Event()
    loop, gate, done = asyncio.get_running_loop(), threading.Event(), []
    remove = Group.remove

    def held(quota, tree):
        loop.call_soon_threadsafe(begun.set)
        gate.wait(30)
        plain(quota, tree)
        done.append("moved")

    def removed(group):
        done.append("removed")
        return remove(group)

    monkeypatch.setattr(module.Quota, "admit", held)
    monkeypatch.setattr(Group, "remove", removed)
    await spawner.spawn(session, ["sleep", "600"], owner="one")
    await begun.wait()
    closing = asyncio.ensure_future(session.close())
    await settle()
    gate.set()
    await closing
    assert done == ["moved", "removed"]
    assert group_names(there) == []


def _has_children(pid: int) -> bool:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return bool(file.read())


async def test_a_look_takes_in_what_got_out(root, spawner, there):
    quotas, ceiling = limited(spawner, Ceiling(), there), Ceiling()
    session = root.child("session:one")
    process = await spawner.spawn(session, ["sleep", "600"], owner="one")
    group = await grouped(quotas, 1)
    await until(lambda: quotas.get("one")._admitting is None)
    there.files.make(elsewhere := f"{there.place}/tenure.{os.getpid():07x}-out")
    there.files.write(f"{elsewhere}/cgroup.procs", str(process.pid))
    assert group.members() == set()
    async with looked_after(root, spawner, ceiling):
        await until(lambda: group.members() == {process.pid})
    there.files.remove(elsewhere)


async def test_limits_are_written_and_follow_the_configuration(root, spawner):
    there = hierarchy("double")
    ceilings = [Ceiling(memory_mib=100, processes=10)]
    spawner.quotas = Quotas("test-0", lambda: ceilings[-1], lambda: Place(there.place), there.files)
    session = root.child("session:one")
    process = await spawner.spawn(session, ["sleep", "600"], owner="one")
    at = (await grouped(spawner.quotas, 1)).path
    read = there.files.read
    assert read(f"{at}/memory.max") == str(100 * MIB)
    assert read(f"{at}/memory.swap.max") == "0"
    assert read(f"{at}/pids.max") == "40"
    ceilings.append(Ceiling())
    await spawner.spawn(session, ["sleep", "600"], owner="one")
    await grouped(spawner.quotas, 2)
    assert read(f"{at}/memory.max") == read(f"{at}/pids.max") == "max"
    assert process.returncode is None


async def test_who_was_ended_for_want_of_memory_is_told_so_once(root, spawner):
    there = hierarchy("double")
    limited(spawner, Ceiling(memory_mib=100), there)
    session = root.child("session:one")
    small = await spawner.spawn(session, ["sleep", "600"], owner="one")
    large = await spawner.spawn(session, ["sleep", "600"], owner="one")
    group = await grouped(spawner.quotas, 2)
    there.files.happen(group.path, "memory.events", "low 0\nmax 9\noom 1\noom_kill 1\n")
    for process in (large, small):
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
    assert large.verdict == (
        "the session's processes needed more memory; the limit is 100 MiB "
        "(limits.session_memory_mib)"
    )
    assert small.verdict == ""


async def test_memory_that_the_kernel_limits_is_not_looked_at(root, spawner):
    there, ceiling = hierarchy("double"), Ceiling(memory_mib=2)
    limited(spawner, ceiling, there)
    argv = [sys.executable, "-c", "print('up', flush=True); import time; time.sleep(600)"]
    one = await spawner.spawn(root.child("session:one"), argv, owner="one")
    two = await spawner.spawn(root, argv, owner="two")
    for process in (one, two):
        assert await process.stdout.read() == b"up\n"
    await grouped(spawner.quotas, 1)
    watchman = Watchman(root.child("watch"), spawner, SystemClock(), lambda: ceiling)
    await watchman._enforce(await watchman.look())
    async with asyncio.timeout(30):
        await two.wait()
    assert one.returncode is None


async def test_a_swarm_that_the_kernel_has_stopped_is_ended_and_told(root, spawner):
    there, ceiling = hierarchy("double"), Ceiling(processes=10)
    limited(spawner, ceiling, there)
    session = root.child("session:one")
    small = await spawner.spawn(session, ["sleep", "600"], owner="one")
    swarm = "for n in 1 2 3; do sleep 600 & done; wait"
    large = await spawner.spawn(session, ["sh", "-c", swarm], owner="one")
    async with looked_after(root, spawner, ceiling) as watchman:
        await grouped(spawner.quotas, 5)
        there.files.happen(spawner.quotas.get("one").group.path, "pids.events", "max 3\n")
        await watchman._enforce(await watchman.look())
        async with asyncio.timeout(30):
            assert await large.wait() == -9
    assert "the limit is 10 processes and 40 threads (limits.session_processes)" in large.verdict
    assert small.returncode is None
    await until(lambda: read_stat(small.pid).state != "T")


async def test_where_no_group_can_be_made_a_session_works_without(root, spawner):
    there = hierarchy("double")
    limited(spawner, Ceiling(open_files=99), there)
    there.files.read_only = True
    session = root.child("session:one")
    _, said = await run(spawner, session, "sh", "-c", "sleep 0.05; ulimit -n")
    assert said == "99\n"
    assert spawner.quotas.get("one").group is None
    assert (await session.close()).clean


async def test_a_child_whose_limits_fail_runs(root, spawner, monkeypatch, caplog):
    limited(spawner, Ceiling(open_files=99))
    monkeypatch.setattr(module, "_bound", lambda *_: 1 / 0)
    process, said = await run(spawner, root.child("session:one"), "echo", "hi")
    assert (process.returncode, said) == (0, "hi\n")
    assert "has no limits by the kernel" in caplog.text


async def test_what_cannot_start_keeps_no_group(root, spawner, there):
    quotas = limited(spawner, Ceiling(), there)
    session = root.child("session:one")
    with pytest.raises(ProcessError):
        await spawner.spawn(session, ["/no/such/program"], owner="one")
    assert quotas.get("one").users == 0
    await session.close()
    assert group_names(there) == []


# --- the disk -------------------------------------------------------------------------------------


async def test_a_session_whose_folders_overflow_loses_the_writer(root, spawner, tmp_path):
    ceiling = Ceiling(disk_mib=8)
    quotas = limited(spawner, ceiling)
    quotas.roots.add(tmp_path)
    (tmp_path / "one").mkdir()
    session = root.child("session:one")
    small = await spawner.spawn(session, ["sleep", "600"], owner="one")
    write = (
        f"for n in range(5): open({str(tmp_path / 'one')!r} + f'/{{n}}', 'wb').write(b'x' * (3 << 20))"
        "\nprint('written', flush=True); import time; time.sleep(600)"
    )
    writer = await spawner.spawn(session, [sys.executable, "-c", write], owner="one")
    assert await writer.stdout.read() == b"written\n"
    assert disk_bytes(tmp_path / "one") // MIB == 15
    async with looked_after(root, spawner, ceiling):
        async with asyncio.timeout(30):
            assert await writer.wait() == -9
    assert writer.verdict == (
        "the session's own folders held 15 MiB; the limit is 8 MiB (limits.session_disk_mib)"
    )
    assert small.returncode is None


def test_folders_that_do_not_grow_end_nobody(tmp_path):
    quotas = Quotas("test-0", lambda: Ceiling(disk_mib=1), lambda: NO_PLACE)
    quotas.roots.add(tmp_path)
    (tmp_path / "one").mkdir()
    (tmp_path / "one/big").write_bytes(b"x" * 3 * MIB)
    quota = module.Quota("one", quotas)
    assert "limits.session_disk_mib" in quota.overfull(0.0)
    assert quota.overfull(1.0) == "", "too soon"
    assert quota.overfull(1_000.0) == "", "somebody may be clearing up"
    (tmp_path / "one/more").write_bytes(b"x" * MIB)
    assert quota.overfull(2_000.0)
    (tmp_path / "two").mkdir()
    (tmp_path / "two/small").write_bytes(b"x" * 9_000)
    assert module.Quota("two", quotas).overfull(0.0) == ""
    quotas.ceiling = Ceiling
    assert module.Quota("one", quotas).overfull(0.0) == "", "there is no limit"


def test_a_folder_is_counted_within_bounds(tmp_path, monkeypatch):
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside / "a", outside):
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"x" * MIB)
    (inside / "a/link").symlink_to(outside)
    assert MIB <= disk_bytes(inside) < 2 * MIB
    assert disk_bytes(tmp_path / "nowhere") == 0
    monkeypatch.setattr(module, "ENTRIES_MAX", 1)
    assert disk_bytes(inside) < MIB


async def test_a_look_at_the_disk_that_takes_long_is_repeated_the_later(monkeypatch):
    class Time:
        now_s = 0.0

        def monotonic(self):
            return self.now_s

    time = Time()

    def looked(_folder):
        time.now_s += 2.0
        return int(time.now_s) * MIB

    monkeypatch.setattr(module, "time", time)
    monkeypatch.setattr(module, "disk_bytes", looked)
    quotas = Quotas("test-0", lambda: Ceiling(disk_mib=1), lambda: NO_PLACE)
    quotas.roots.add(Path("nowhere"))
    quota = module.Quota("one", quotas)
    assert quota.overfull(0.0)
    assert quota.overfull(99.0) == ""
    assert quota.overfull(100.0)


# --- one quota, step by step ----------------------------------------------------------------------


class Members:
    """A group that only notes who comes in; whoever asks it for ever is told so."""

    def __init__(self, refuses=()) -> None:
        self.path = "a test's"
        self.refuses = set(refuses)
        self.within: set[int] = set()
        self.orders: list[list[int]] = []

    def admit(self, pids):
        self.orders.append(sorted(pids))
        assert len(self.orders) < 100, "it goes on and on"
        self.within |= set(pids) - self.refuses
        return self.refuses.isdisjoint(pids)

    def members(self):
        return set(self.within)

    def remove(self):
        self.orders.append([])
        return True


def plain_quota(group=None):
    quota = module.Quota("one", Quotas("test-0", Ceiling, lambda: NO_PLACE))
    quota._tried, quota.group, quota._written = True, group, Ceiling()
    return quota


def swarm():
    """A tree with one more member at each look."""
    pids = [10]

    def members():
        pids.append(len(pids) + 10)
        return [Stat(pid, "S", 1, 1, 1, 5) for pid in pids]

    return Arriving(10, members)


def test_what_forks_for_ever_is_not_followed_for_ever():
    group = Members()
    plain_quota(group).admit([swarm()])
    assert group.orders == [[pid] for pid in range(10, 11 + module.ROUNDS_MAX)]


def test_who_cannot_be_taken_in_is_not_tried_again():
    group = Members(refuses=[11])
    tree = Arriving(10, lambda: [Stat(pid, "S", 1, 1, 1, 5) for pid in (10, 11)])
    plain_quota(group).admit([tree])
    assert group.orders == [[10], [11]]


def test_a_tree_is_followed_until_nobody_is_left_outside():
    group = Members()
    looks = [(10, 11), (10, 11, 12), (10, 11, 12)]
    tree = Arriving(10, lambda: [Stat(pid, "S", 1, 1, 1, 5) for pid in looks.pop(0)])
    plain_quota(group).admit([tree])
    assert (group.within, looks) == ({10, 11, 12}, [])


def test_only_what_has_got_out_is_moved_and_nothing_where_there_is_no_group():
    group = Members()
    group.within = {10}
    plain_quota(group).readmit([10, 11])
    assert group.orders == [[11]]
    plain_quota().readmit([10])
    plain_quota().admit([swarm()])
    assert plain_quota().swarming() == ""


def test_the_machine_is_asked_for_a_place_once_and_for_each_group_once():
    looks, asked = [], []

    class Asked(Quotas):
        def group_for(self, owner):
            asked.append(owner)
            return super().group_for(owner)

    quotas = Asked("test-0", Ceiling, lambda: looks.append(1) or NO_PLACE)
    for quota in (module.Quota(owner, quotas) for owner in ("one", "two")):
        for _ in range(2):
            quota.admit([])
            assert quota.group is None
    assert (looks, asked) == ([1], ["one", "two"])


def test_a_group_of_an_earlier_life_is_taken_and_what_cannot_be_made_is_none():
    there = hierarchy("double")
    quotas = Quotas("test-0", Ceiling, lambda: Place(there.place), there.files)
    there.files.make(f"{there.place}/tenure.test-0.one")
    group, kernel = quotas.group_for("one")
    assert (group.path, kernel) == (f"{there.place}/tenure.test-0.one", {"memory", "pids"})
    there.files.read_only = True
    assert quotas.group_for("two") == (None, frozenset())


def test_that_a_swarm_was_stopped_is_told_once():
    there = hierarchy("double")
    quotas = Quotas(
        "test-0", lambda: Ceiling(processes=10), lambda: Place(there.place), there.files
    )
    quota = module.Quota("one", quotas)
    quota.admit([])
    assert quota.swarming() == ""
    there.files.happen(quota.group.path, "pids.events", "max 3\n")
    assert "40 threads" in quota.swarming()
    assert quota.swarming() == ""


def test_an_end_by_hand_is_none_by_want_of_memory():
    there = hierarchy("double")
    quotas = Quotas(
        "test-0", lambda: Ceiling(memory_mib=5), lambda: Place(there.place), there.files
    )
    quota = module.Quota("one", quotas)
    assert quota.exited(-9) == ""
    quota.admit([])
    assert quota.exited(-9) == ""
    there.files.happen(quota.group.path, "memory.events", "oom_kill 1\n")
    assert quota.exited(1) == ""
    assert "5 MiB" in quota.exited(137)
    assert quota.exited(-9) == ""


def test_limits_are_written_again_where_they_have_changed():
    there, ceilings = hierarchy("double"), [Ceiling(memory_mib=5)]
    quotas = Quotas("test-0", lambda: ceilings[-1], lambda: Place(there.place), there.files)
    quota = module.Quota("one", quotas)
    quota.admit([])
    assert there.files.read(f"{quota.group.path}/memory.max") == str(5 * MIB)
    ceilings.append(Ceiling(memory_mib=7))
    quota.admit([])
    assert there.files.read(f"{quota.group.path}/memory.max") == str(7 * MIB)


class Moving:
    """Moves into a group, held one by one."""

    def __init__(self, monkeypatch) -> None:
        self.loop = asyncio.get_running_loop()
        self.moves: list[tuple[list[int], asyncio.Future[None]]] = []
        monkeypatch.setattr(module, "call_in_thread", self.call)

    def call(self, fn, *args):
        done = self.loop.create_future()
        self.moves.append(([tree.pid for tree in args[0]] if args else ["removed"], done))
        return done

    @property
    def begun(self):
        return [pids for pids, _ in self.moves]


def arriving(pid):
    return Arriving(pid, list)


async def test_one_moves_at_a_time_and_the_next_follow_whatever_became_of_it(monkeypatch, caplog):
    moving, quota = Moving(monkeypatch), plain_quota(Members())
    for pid in (1, 2, 3):
        quota.begin_admit(arriving(pid))
    assert moving.begun == [[1]]
    moving.moves[0][1].set_exception(OSError("no"))
    await settle()
    assert moving.begun == [[1], [2, 3]]
    moving.moves[1][1].set_result(None)
    await settle()
    quota.begin_admit(arriving(4))
    assert moving.begun == [[1], [2, 3], [4]]
    moving.moves[2][1].set_result(None)
    assert "is in no control group" in caplog.text


async def test_a_group_goes_after_the_last_tree_and_the_last_move(monkeypatch):
    moving, quota = Moving(monkeypatch), plain_quota(Members())
    quota.users = 2
    first = asyncio.ensure_future(quota.left())
    await settle()
    assert moving.begun == [], "it stays for the next child"
    quota.closing = True
    second = asyncio.ensure_future(quota.leave())
    await settle()
    assert moving.begun == [], "one still runs"
    quota.begin_admit(arriving(1))
    quota.begin_admit(arriving(2))
    leaving = asyncio.ensure_future(quota.left())
    await settle()
    assert moving.begun == [[1]]
    moving.moves[0][1].set_result(None)
    await settle()
    assert moving.begun == [[1], ["removed"]], "the other is over"
    moving.moves[1][1].set_result(True)
    await asyncio.gather(first, second, leaving)


async def test_only_a_session_that_admits_has_a_quota_and_one_of_them(root):
    quotas = Quotas("test-0", Ceiling, lambda: NO_PLACE)
    session = root.child("session:one")
    quota = quotas.of(session.child("turn"), "one")
    assert quotas.of(session, "one") is quota
    assert [entry.kind for entry in session.census()] == ["limits"]
    assert quotas.of(root, "one") is None
    assert quotas.of(session, "two") is None
    turn = session.child("another")
    session.claim("it ends")
    assert quotas.of(turn, "one") is None
    await session.close()
    assert quotas.get("one") is None
    assert quota.closing


def test_no_session_gets_all_memory():
    machine_mib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MIB
    assert ceiling_of(LimitsConfig()).memory_mib == machine_mib * 3 // 4
    assert ceiling_of(LimitsConfig(session_memory_mib=5)).memory_mib == 5
