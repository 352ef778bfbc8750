"""Spawner and Process: one child, its pipes, its end."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import signal
import threading

import pytest
import uvloop

from tenure.clock import SystemClock
from tenure.errors import ProcessError, ScopeClosed
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import call_in_thread
from tenure.processes import spawn as spawn_module
from tenure.processes.brand import read_number
from tenure.processes.containment import KILL_S
from tenure.processes.identity import identity_of, is_alive
from tenure.processes.spawn import Process, Spawner
from tenure.processes.terminal import Screen
from tenure.processes.watch import children
from tenure.testing.clock import settle
from tenure.testing.plugin import open_fds
from tenure.testing.waiting import until


async def read_all(reader) -> bytes:
    found = b""
    while data := await reader.read():
        found += data
    return found


async def test_output_status_and_census(world, spawner):
    process = await spawner.spawn(world, ["sh", "-c", "echo out; echo err >&2; exit 3"], label="x")
    assert [(e.kind, e.label, e.pid) for e in world.census()] == [("process", "x", process.pid)]
    assert await read_all(process.stdout) == b"out\n"
    assert await read_all(process.stderr) == b"err\n"
    assert await process.wait() == 3 == process.returncode
    await process.stop()
    assert world.census() == []


async def test_stderr_merged_or_dropped(world, spawner):
    argv = ["sh", "-c", "echo out; echo err >&2"]
    merged = await spawner.spawn(world, argv, stderr="merge")
    assert await read_all(merged.stdout) == b"out\nerr\n"
    assert merged.stderr is None
    dropped = await spawner.spawn(world, argv, stderr="null")
    assert await read_all(dropped.stdout) == b"out\n"


async def test_input_is_null_unless_asked_for(world, spawner):
    process = await spawner.spawn(world, ["cat"])
    assert await read_all(process.stdout) == b""
    with pytest.raises(ProcessError):
        await process.write(b"x")


async def test_much_goes_through_both_pipes_with_backpressure(world, spawner):
    process = await spawner.spawn(world, ["cat"], stdin="pipe")
    data = os.urandom(1 << 20)

    async def feed() -> None:
        await process.write(data)
        process.close_stdin()

    world.spawn(feed(), name="feed")
    assert await read_all(process.stdout) == data
    assert await process.wait() == 0


async def test_writing_to_a_child_that_has_gone_is_one_typed_error(world, spawner):
    process = await spawner.spawn(world, ["true"], stdin="pipe")
    await process.wait()
    with pytest.raises(ProcessError):
        await process.write(b"x" * (1 << 20))
    with pytest.raises(ProcessError):
        await process.write(b"x")


@pytest.mark.parametrize(
    ("argv", "words"),
    [(["no-such-program-here"], "no such program"), (["/etc/passwd"], "may not be executed")],
)
async def test_what_cannot_start_is_told_in_a_sentence(world, spawner, argv, words):
    with pytest.raises(ProcessError, match=words):
        await spawner.spawn(world, argv)
    assert world.census() == []


async def test_missing_working_directory(world, spawner, tmp_path):
    with pytest.raises(ProcessError, match="working directory"):
        await spawner.spawn(world, ["true"], cwd=tmp_path / "none")


async def test_the_environment_is_built_not_copied(world):
    ours = {"PATH": os.environ["PATH"], "LC_ALL": "C", "SOME_API_KEY": "secret", "HOME": "/h"}
    spawner = Spawner(instance="i", environ=ours, clock=world.clock)
    process = await spawner.spawn(
        world, ["env"], env={"EXTRA": "1", "TENURE_OWNER": "forged"}, owner="s1"
    )
    lines = (await read_all(process.stdout)).decode().split()
    assert {"LC_ALL=C", "HOME=/h", "EXTRA=1"} <= set(lines)
    (label,) = [line for line in lines if line.startswith("TENURE_OWNER=")]
    assert re.fullmatch(r"TENURE_OWNER=i/s1/[0-9a-f]{8}-1", label)
    assert "secret" not in " ".join(lines)


async def test_descriptors_of_ours_are_private(world, spawner):
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    try:
        process = await spawner.spawn(world, ["sh", "-c", "ls /proc/self/fd"])
        # ls itself holds the listing as 3
        assert (await read_all(process.stdout)).split() == [b"0", b"1", b"2", b"3"]
    finally:
        os.close(reader)
        os.close(writer)


async def test_a_child_cannot_make_our_ends_or_our_own_input_non_blocking(world, spawner):
    change = "import os\nfor fd in (0, 1, 2): os.set_blocking(fd, False)\nprint(os.getsid(0) == os.getpid())"
    before = [os.get_blocking(fd) for fd in (0, 1, 2)]
    process = await spawner.spawn(world, ["python3", "-c", change])
    assert await read_all(process.stdout) == b"True\n"
    assert [os.get_blocking(fd) for fd in (0, 1, 2)] == before


async def test_wait_and_read_do_not_hang_on_a_grandchild_that_keeps_the_pipe(world, spawner):
    process = await spawner.spawn(world, ["sh", "-c", "echo first; sleep 60 & exit 0"])
    async with asyncio.timeout(30):
        assert await process.wait() == 0
        assert await read_all(process.stdout) == b"first\n"
    await process.stop()


async def test_what_was_written_before_the_end_stays_readable_after_stop(world, spawner):
    process = await spawner.spawn(
        world, ["sh", "-c", "echo ready >&2; echo kept; sleep 60"], grace_s=8
    )
    assert await process.stderr.read() == b"ready\n"
    reader, stdout = process.stdout, b""
    while not stdout:
        stdout = reader.read_nowait(2) or b""
        await asyncio.sleep(0)
    await process.stop()
    assert stdout + await read_all(reader) == b"kept\n"
    ended = (-signal.SIGINT, -signal.SIGTERM, 128 + signal.SIGINT)  # a shell that forks misses one
    assert process.returncode in ended


async def test_identity_ends_with_the_process(world, spawner):
    process = await spawner.spawn(world, ["cat"], stdin="pipe")
    assert identity_of(process.pid) == process.identity
    assert is_alive(process.identity)
    process.close_stdin()
    await process.wait()
    assert not is_alive(process.identity)


async def test_cancelled_while_starting_ends_the_child(world, spawner):
    task = asyncio.get_running_loop().create_task(spawner.spawn(world, ["sleep", "60"]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(30):
        while world.census():
            await asyncio.sleep(0.001)
    assert not spawner._alive


async def test_a_closed_scope_starts_nothing(world, spawner):
    scope = world.child("s")
    await scope.close()
    with pytest.raises(ScopeClosed):
        await spawner.spawn(scope, ["true"])


async def test_a_close_while_starting_ends_the_child(world, spawner):
    scope = world.child("s")
    task = asyncio.get_running_loop().create_task(spawner.spawn(scope, ["sleep", "60"]))
    await asyncio.sleep(0)
    await scope.close()
    with pytest.raises(ScopeClosed):
        await task
    assert not spawner._alive


async def test_one_thread_starts_all_and_ends_with_the_last_child(world, spawner):
    first = await spawner.spawn(world, ["cat"], stdin="pipe")
    second = await spawner.spawn(world, ["cat"], stdin="pipe")
    assert [t.name for t in threading.enumerate()].count("tenure launcher") == 1
    await first.stop()
    assert [t.name for t in threading.enumerate()].count("tenure launcher") == 1
    launcher = next(t for t in threading.enumerate() if t.name == "tenure launcher")
    await second.stop()
    launcher.join(30)
    assert not launcher.is_alive()


async def test_two_readers_of_one_pipe_are_refused(world, spawner):
    process = await spawner.spawn(world, ["cat"], stdin="pipe")
    reading = world.spawn(process.stdout.read(), name="read")
    await asyncio.sleep(0)
    with pytest.raises(ProcessError):
        await process.stdout.read()
    process.close_stdin()
    assert await reading.value == b""


def test_under_uvloop():
    async def main() -> None:
        root = Scope.root("root", SystemClock())
        spawner = Spawner(instance="i", environ=os.environ, clock=root.clock)
        process = await spawner.spawn(root, ["cat"], stdin="pipe")
        await process.write(b"x" * 30_000)
        process.close_stdin()
        assert len(await read_all(process.stdout)) == 30_000
        assert await process.wait() == 0
        sleeper = await spawner.spawn(root, ["sleep", "60"])
        assert (await root.close()).clean
        assert sleeper.returncode == -signal.SIGINT

    async def bounded() -> None:
        async with asyncio.timeout(60):  # no signal interrupts this loop
            await main()

    uvloop.run(bounded())


async def test_spawners_of_one_name_do_not_end_each_others_children(world):
    """Two commands that name their instance alike (two downloads) run side by side."""
    one, two = (Spawner(instance="same", environ=os.environ, clock=world.clock) for _ in range(2))
    ours, theirs = world.child("ours"), world.child("theirs")
    mine = await one.spawn(ours, ["sleep", "60"], owner="s")
    other = await two.spawn(theirs, ["sleep", "60"], owner="s")
    await ours.close()
    assert mine.returncode is not None
    assert other.returncode is None
    await theirs.close()


async def test_an_end_that_was_seen_is_not_looked_for_again(world, spawner, monkeypatch):
    process = await spawner.spawn(world, ["true"])
    await process.wait()
    assert await process.count_left() == 0
    monkeypatch.setattr(spawn_module, "end_all", None)
    await process.stop()
    assert world.census() == []


async def test_a_waiter_that_is_cancelled_takes_nobody_along(world, spawner):
    process = await spawner.spawn(world, ["cat"], stdin="pipe")
    impatient, patient = (asyncio.ensure_future(process.wait()) for _ in range(2))
    await settle()
    impatient.cancel()
    await settle()
    assert impatient.cancelled() and not patient.done()
    process.close_stdin()
    assert await patient == 0


async def test_a_stop_returns_when_the_child_is_reaped(world, spawner, monkeypatch):
    process = await spawner.spawn(world, ["sleep", "600"])
    begun = asyncio.Event()

    def nothing_runs(*_):
        world_loop.call_soon_threadsafe(begun.set)
        return []

    world_loop = asyncio.get_running_loop()
    monkeypatch.setattr(spawn_module, "end_all", nothing_runs)
    stopping = asyncio.ensure_future(process.stop())
    await begun.wait()
    await settle()
    assert not stopping.done()
    process.kill()
    await stopping
    assert process.returncode == -signal.SIGKILL


async def test_a_tree_is_known_until_it_has_ended_and_no_longer(world, spawner):
    process = await spawner.spawn(world, ["cat"], stdin="pipe")
    number = process.root.number
    assert spawner.knows(process.pid)
    assert process.pid not in {stat.pid for stat in children(spawner.knows)}
    assert read_number(process.pid) == number
    assert list(spawner.trees) == [number]
    assert spawner.roll._leaders == {process.pid: process.root}
    process.close_stdin()
    await process.wait()
    assert not spawner.knows(process.pid)
    (entry,) = world.census()
    assert entry.pid is None, "another may have that pid from now on"
    process.adopted(process._lease, 1.0)  # it can have ended as quickly
    assert world.census()[0].pid is None
    assert list(spawner.trees) == [number], "what it has started may run on"
    await process.stop()
    assert spawner.trees == {} == spawner.roll._leaders


async def test_the_first_reason_for_an_end_is_the_one_that_is_told(world, spawner):
    class Quota:
        def exited(self, returncode):
            return f"ended by {returncode}"

    for verdict, told in (("too many", "too many"), ("", "ended by -9")):
        process = await spawner.spawn(world, ["sleep", "600"])
        process.quota, process.verdict = Quota(), verdict
        process.kill()
        await process.wait()
        assert process.verdict == told
        await process.stop()


async def test_a_reaped_child_leaves_its_number_to_others(world, spawner):
    """The loop has forgotten the descriptor that told of the exit."""
    process = await spawner.spawn(world, ["cat"], stdin="pipe")
    pidfd = process._pidfd
    process.close_stdin()
    await process.wait()
    assert not asyncio.get_running_loop().remove_reader(pidfd)
    with pytest.raises(OSError):
        os.fstat(pidfd)


async def test_the_exit_ends_the_pipes_that_a_grandchild_keeps_open(world, spawner):
    process = await spawner.spawn(world, ["sh", "-c", "sleep 600 & exit 0"])
    await process.wait()
    reading = [asyncio.ensure_future(read_all(one)) for one in (process.stdout, process.stderr)]
    await settle()
    assert [one.done() for one in reading] == [True, True]
    await process.stop()


async def test_a_terminal_hears_the_hangup_and_a_pipe_the_interrupt(world, spawner, monkeypatch):
    asked, plain = [], spawn_module.end_all
    monkeypatch.setattr(
        spawn_module, "end_all", lambda find, steps: asked.append(steps) or plain(find, [])
    )
    for screen in (Screen(), None):
        process = await spawner.spawn(world, ["sleep", "600"], screen=screen, grace_s=4.0)
        await process.stop()
    assert asked == [
        [(signum, 1.0), (signal.SIGTERM, 3.0)] for signum in (signal.SIGHUP, signal.SIGINT)
    ]


async def test_an_end_that_takes_too_long_is_cut_short(root, clock, spawner, monkeypatch):
    killed, go = [], threading.Event()
    monkeypatch.setattr(spawn_module, "end_all", lambda *_: go.wait(30) and [])
    monkeypatch.setattr(Process, "kill", lambda process: killed.append(process.pid))
    process = await spawner.spawn(root, ["sleep", "600"], grace_s=4.0)
    stopping = asyncio.ensure_future(process.stop())
    await until(lambda: clock.due_in(4.0 + KILL_S + 1.0))
    clock.advance(4.0 + KILL_S + 1.0)
    assert killed == [process.pid]
    os.kill(process.pid, signal.SIGKILL)
    go.set()
    await stopping


class Scarce:
    """Descriptors, of which there is none left at the `last`-th wish."""

    def __init__(self, monkeypatch, last) -> None:
        self.left, self.started = last, []
        self._dup, self._read_stat = os.dup, spawn_module.read_stat
        monkeypatch.setattr(spawn_module.os, "dup", self.dup)
        monkeypatch.setattr(spawn_module, "read_stat", self.read_stat)

    def dup(self, fd):
        self.left -= 1
        if self.left == 0:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self._dup(fd)

    def read_stat(self, pid):
        self.started.append(pid)
        self.left -= 1
        return None if self.left == 0 else self._read_stat(pid)


@pytest.mark.parametrize(("last", "screen"), [(1, None), (3, None), (4, None), (3, Screen())])
async def test_a_child_that_no_descriptor_is_left_for_is_ended(
    world, spawner, monkeypatch, last, screen
):
    before = open_fds()
    scarce = Scarce(monkeypatch, last)
    with pytest.raises(ProcessError, match="open files"):
        await spawner.spawn(world, ["sleep", "600"], stdin="pipe", screen=screen)
    (pid,) = scarce.started
    assert identity_of(pid) is None
    assert (world.census(), spawner.trees, spawner.starting) == ([], {}, set())
    assert not spawner.knows(pid)
    assert spawner._launcher.starting_or_alive == 0
    assert open_fds() == before


async def test_a_child_is_on_its_way_until_its_pid_is_known(world, spawner, monkeypatch):
    seen = []
    plain = spawn_module.read_stat
    monkeypatch.setattr(
        spawn_module, "read_stat", lambda pid: seen.append(set(spawner.starting)) or plain(pid)
    )
    process = await spawner.spawn(world, ["true"])
    (tree,) = spawner.trees
    assert seen == [{tree}]
    assert spawner.starting == set()
    await process.stop()


async def test_an_end_waits_for_a_thread(world, spawner, monkeypatch):
    refused = []

    def scarce(fn, *args):
        if len(refused) < 2:
            refused.append(fn)
            raise RuntimeError("can't start new thread")
        return call_in_thread(fn, *args)

    process = await spawner.spawn(world, ["sleep", "600"])
    monkeypatch.setattr(spawn_module, "call_in_thread", scarce)
    await process.stop()
    assert len(refused) == 2
    assert (process.returncode, spawner.trees) == (-signal.SIGINT, {})
