"""The thread that starts children: it lives as long as any of them, and no longer."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import threading
from types import SimpleNamespace

import pytest

from tenure.processes.launcher import Launcher
from tenure.testing.clock import settle
from tenure.testing.plugin import open_fds
from tenure.testing.waiting import until


def thread():
    return next((t for t in threading.enumerate() if t.name == "tenure launcher"), None)


class Held:
    """A start that waits until it may go on."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> subprocess.Popen[bytes]:
        self.begun.set()
        assert self.go.wait(30)
        self.process = subprocess.Popen(["sleep", "600"])
        return self.process


async def test_a_start_that_fails_is_told_and_holds_nothing():
    launcher = Launcher()

    def fails():
        raise FileNotFoundError("no such program")

    future = launcher.launch(fails)
    running = thread()
    while not future.done():
        assert running.is_alive(), "what failed has taken the thread along"
        await asyncio.sleep(0)
    with pytest.raises(FileNotFoundError):
        await future
    assert launcher.starting_or_alive == 0
    running.join(30)
    assert not running.is_alive()


async def test_a_child_that_nobody_waits_for_any_more_is_ended():
    launcher, start = Launcher(), Held()
    before = open_fds()
    future = launcher.launch(start)
    assert await asyncio.to_thread(start.begun.wait, 30)
    future.cancel()
    start.go.set()
    await until(
        lambda: (
            launcher.starting_or_alive == 0
            or (start.process is not None and start.process.returncode is not None)
        )
    )
    assert launcher.starting_or_alive == 0
    returncode = start.process.returncode
    start.process.kill()
    start.process.wait()
    assert returncode == -9
    assert open_fds() == before


async def test_a_child_of_which_there_can_be_no_pidfd_is_ended(monkeypatch):
    def refuse(_pid):
        raise OSError(errno.EMFILE, "Too many open files")

    launcher, start = Launcher(), Held()
    start.go.set()
    monkeypatch.setattr(os, "pidfd_open", refuse)
    before = open_fds()
    with pytest.raises(OSError, match="open files"):
        await launcher.launch(start)
    returncode = start.process.returncode
    start.process.kill()
    start.process.wait()
    assert returncode == -9
    assert launcher.starting_or_alive == 0
    assert open_fds() == before


def test_a_child_that_comes_after_the_end_of_the_loop_is_ended():
    launcher, start = Launcher(), Held()

    async def main():
        launcher.launch(start)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()
    running = thread()
    start.go.set()
    launcher.child_gone()  # so that the thread ends after it
    running.join(30)
    assert not running.is_alive()
    returncode = start.process.returncode
    start.process.kill()
    start.process.wait()
    assert returncode == -9


async def test_the_thread_ends_with_the_last_child_only():
    launcher = Launcher()
    children = [await launcher.launch(lambda: subprocess.Popen(["true"])) for _ in range(2)]
    running = thread()
    launcher.child_gone()
    await settle()
    assert launcher.starting_or_alive == 1
    third = await launcher.launch(lambda: subprocess.Popen(["true"]))
    assert [t for t in threading.enumerate() if t.name == running.name] == [running]
    work, told = launcher._work, []
    launcher._work = SimpleNamespace(put=told.append)
    for _ in range(2):
        launcher.child_gone()
    assert (told, launcher._work) == ([None], None)
    work.put(*told)
    running.join(30)
    assert not running.is_alive()
    for process, pidfd in (*children, third):
        process.wait()
        os.close(pidfd)
