"""The end of a whole tree: whatever it ignores, wherever it has forked to."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest

from tenure.processes import containment
from tenure.processes.containment import end_all, wait_gone
from tenure.processes.procfs import (
    Stat,
    open_pidfd,
    read_stat,
    send_signal,
    with_descendants,
)
from tenure.testing.plugin import open_fds

SLEEP = "import time; time.sleep(60)"
IGNORES = "import signal; [signal.signal(s, signal.SIG_IGN) for s in (2, 15)];"


async def read_line(reader) -> str:
    line = b""
    while not line.endswith(b"\n") and (data := await reader.read(1)):
        line += data
    return line.decode().strip()


async def test_a_child_that_ignores_interrupt_and_term_is_killed(world, spawner):
    script = f"{IGNORES} print('ready', flush=True); {SLEEP}"
    process = await spawner.spawn(world, [sys.executable, "-c", script], grace_s=0.2)
    assert await read_line(process.stdout) == "ready"
    await process.stop()
    assert process.returncode == -signal.SIGKILL


async def test_the_ladder_begins_politely(world, spawner):
    script = (
        "import os, signal, sys, time\n"
        "def on(signum, frame): os.write(1, b'%d\\n' % signum); signum == 15 and os._exit(7)\n"
        "signal.signal(2, on); signal.signal(15, on); print('ready', flush=True)\n"
        "while True: time.sleep(60)"
    )
    process = await spawner.spawn(world, [sys.executable, "-c", script], grace_s=2.0)
    assert await read_line(process.stdout) == "ready"
    await process.stop()
    assert process.returncode == 7
    assert await read_line(process.stdout) == "2"
    assert await read_line(process.stdout) == "15"


async def test_a_stopped_child_ends_too(world, spawner):
    process = await spawner.spawn(world, ["cat"], stdin="pipe", grace_s=8)
    process.signal_tree(signal.SIGSTOP)
    await process.stop()
    assert process.returncode == -signal.SIGINT


async def test_background_jobs_and_a_setsid_grandchild_end_with_it(world, spawner, watch):
    process = await spawner.spawn(
        world,
        ["sh", "-c", "sleep 60 & echo $!; setsid sh -c 'echo $$; exec sleep 60' & wait"],
        grace_s=0.4,
    )
    pids = [int(await read_line(process.stdout)) for _ in range(2)]
    watched = [watch(pid) for pid in pids]
    await process.stop()
    assert not any(one.runs for one in watched)


async def test_an_orphan_without_a_label_ends_by_its_session(world, spawner, watch):
    process = await spawner.spawn(
        world, ["sh", "-c", "env -i sleep 60 >/dev/null & echo $!"], grace_s=0.4
    )
    orphan = watch(int(await read_line(process.stdout)))
    await process.wait()
    assert orphan.runs
    await process.stop()
    assert not orphan.runs


DOUBLE_FORK = """
import os, time
reader, writer = os.pipe()
if os.fork():
    os.read(reader, 1)
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
os.write(writer, b"x")
time.sleep(60)
"""


async def test_a_daemon_ends_by_its_label(world, spawner, watch):
    process = await spawner.spawn(world, [sys.executable, "-c", DOUBLE_FORK], grace_s=0.4)
    daemon = watch(int(await read_line(process.stdout)))
    await process.wait()
    assert daemon.runs
    await process.stop()
    assert not daemon.runs


async def test_a_daemon_of_a_sibling_and_a_look_alike_are_left_alone(world, spawner, watch):
    mine, other = [
        await spawner.spawn(world, [sys.executable, "-c", DOUBLE_FORK], owner="same", grace_s=0.4)
        for _ in range(2)
    ]
    daemon, theirs = [watch(int(await read_line(p.stdout))) for p in (mine, other)]
    look_alike = subprocess.Popen([sys.executable, "-c", SLEEP], start_new_session=True)
    try:
        await mine.stop()
        assert not daemon.runs
        assert theirs.runs
        assert look_alike.poll() is None
    finally:
        look_alike.kill()
        look_alike.wait()
    await other.stop()
    assert not theirs.runs


async def test_a_tree_that_forks_while_it_is_ended(world, spawner):
    """Each generation is new after a scan: one pass would leave the last of them."""
    script = (
        "import os, signal, sys, time\n"
        "[signal.signal(s, signal.SIG_IGN) for s in (2, 15)]\n"
        "os.set_blocking(1, False); print('ready', flush=True)\n"
        "for _ in range(300):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid(); time.sleep(60)\n"
        "    time.sleep(0.002)\n"
        "time.sleep(60)"
    )
    process = await spawner.spawn(world, [sys.executable, "-c", script], grace_s=0.1)
    assert await read_line(process.stdout) == "ready"
    await process.stop()
    assert process.members() == []


def test_a_reused_pid_is_never_signalled():
    mine = read_stat(os.getpid())
    earlier = mine._replace(start_time=mine.start_time - 1)
    assert open_pidfd(earlier) is None
    assert not send_signal(earlier, signal.SIGTERM)


def test_what_survives_is_named():
    stuck = Stat(os.getpid() + 1_000_000_000, "D", 1, 1, 1, 1)
    assert end_all(lambda: [stuck], [], kill_s=0.05) == [stuck]


async def test_survivors_fail_the_release(world, spawner, monkeypatch):
    from tenure.processes import spawn

    scope = world.child("s")
    process = await spawner.spawn(scope, ["cat"], stdin="pipe", grace_s=0.1)
    stuck = Stat(process.pid, "D", 1, 1, 1, 1)
    monkeypatch.setattr(spawn, "end_all", lambda *_: [stuck])
    report = await scope.close()
    assert [failure.outcome for failure in report.failures] == ["failed"]
    assert "survived SIGKILL" in report.failures[0].error
    assert [tree.process for tree in spawner.trees.values()] == [process], "it may still run"
    assert process.stdout._fd < 0, "its pipes are freed all the same"
    monkeypatch.undo()
    process.kill()
    await process.wait()


def test_every_process_comes_after_its_parent():
    """In that order they are signalled: a shell whose child ended first would go on."""

    def stat(pid, ppid):
        return Stat(pid, "S", ppid, 100, 100, 5)

    stats = [
        stat(140, 130),
        stat(120, 110),
        stat(110, 100),
        stat(130, 100),
        stat(100, 1),
        stat(9, 1),
    ]
    for roots in (stats[:5], stats[4:5], list(reversed(stats[:5])), [stats[1], stats[4]]):
        ordered = with_descendants(roots, stats)
        assert sorted(one.pid for one in ordered) == [100, 110, 120, 130, 140]
        place = {one.pid: n for n, one in enumerate(ordered)}
        assert all(place[one.ppid] < place[one.pid] for one in ordered if one.ppid in place)


# --- one step -------------------------------------------------------------------------------------

A, B = Stat(2**22 + 10, "S", 1, 1, 1, 5), Stat(2**22 + 11, "S", 1, 1, 1, 5)
"""Nobody has those pids."""


@pytest.fixture
def sent(monkeypatch):
    told = []
    monkeypatch.setattr(
        containment, "send_signal", lambda stat, signum: told.append((stat, signum))
    )
    return told


def finding(*looks):
    """What each look finds; one more than those fails."""
    left = [list(look) for look in looks]

    def find():
        assert left, "it goes on and on"
        return left.pop(0)

    return find


def test_each_is_told_once_and_a_stopped_one_hears_it(sent):
    assert end_all(finding([A], [A, B], []), [(signal.SIGTERM, 60.0)]) == []
    assert sent == [(s, n) for s in (A, B) for n in (signal.SIGTERM, signal.SIGCONT)]


def test_what_has_been_forked_meanwhile_is_killed_too_and_nothing_is_set_going(sent):
    assert end_all(finding([A], [B], []), []) == []
    assert sent == [(A, signal.SIGKILL), (B, signal.SIGKILL)]


def test_another_process_by_a_pid_that_was_told_is_told(sent):
    again = A._replace(start_time=9)
    assert end_all(finding([A], [again], []), []) == []
    assert [stat for stat, _ in sent] == [A, again]


def test_a_step_ends_at_its_deadline_and_the_next_follows(sent):
    assert end_all(finding([A], [A]), [(signal.SIGTERM, 0.0)], kill_s=0.0) == [A]
    assert [signum for _, signum in sent] == [signal.SIGTERM, signal.SIGCONT, signal.SIGKILL]


def test_waiting_for_an_end_leaves_nothing_open():
    process = subprocess.Popen(["true"])
    stat = read_stat(process.pid)
    before = open_fds()
    wait_gone([stat, A], 30.0)
    assert open_fds() == before
    assert not containment._runs(stat), "though nobody has reaped it"
    process.wait()
    assert not containment._runs(stat)


def test_without_pidfds_an_end_is_looked_for(monkeypatch):
    monkeypatch.setattr(containment, "open_pidfd", lambda _: None)
    mine, looks = read_stat(os.getpid()), []

    def look(pid):
        assert len(looks) < 5, "another process by that pid is waited for"
        looks.append(pid)
        return [mine, mine, mine._replace(start_time=mine.start_time + 9)][min(2, len(looks) - 1)]

    monkeypatch.setattr(containment, "read_stat", look)
    wait_gone([mine], 30.0)
    assert len(looks) == 3


class Scarce:
    """Calls that find no descriptor so many times, and then are made."""

    def __init__(self, times, plain) -> None:
        self.left, self.plain = times, plain

    def __call__(self, *args):
        if self.left:
            self.left -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self.plain(*args)


def test_where_descriptors_are_used_up_the_end_waits_for_them(monkeypatch):
    child = subprocess.Popen(["sleep", "600"])
    found = read_stat(child.pid)

    def find():
        return [] if read_stat(child.pid).gone else [found]

    monkeypatch.setattr(containment, "send_signal", Scarce(2, send_signal))
    monkeypatch.setattr(containment, "open_pidfd", Scarce(2, open_pidfd))
    before = open_fds()
    try:
        left = end_all(Scarce(2, find), [], kill_s=0.0)
        assert (left, find()) == ([], []), "it was told last of all, and yet had its time"
        assert containment.send_signal.left == containment.open_pidfd.left == 0
        assert open_fds() == before
    finally:
        child.kill()
        child.wait()
