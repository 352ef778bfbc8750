"""What the system says about processes, and that a pid alone names nobody."""

from __future__ import annotations

import errno
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.pids import Pid
from tenure.processes import brand, procfs
from tenure.processes.procfs import (
    Stat,
    ancestors,
    identity_of,
    is_alive,
    is_namespace_init,
    open_pidfd,
    pids_below,
    read_label,
    read_stat,
    send_signal,
    with_descendants,
)
from tenure.testing.plugin import open_fds

NOBODY = 2**22 + 1
"""Above the largest pid that there can be."""


@pytest.fixture
def ended():
    """A child that has exited and was not reaped."""
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    yield process
    process.wait()


def test_a_name_says_nothing_about_the_rest():
    comm = Path("/proc/self/comm")
    before = comm.read_text()
    comm.write_text("x) Z 1 (")
    try:
        stat = read_stat(os.getpid())
        assert (stat.ppid, stat.gone) == (os.getppid(), False)
    finally:
        comm.write_text(before)


def test_of_a_pid_that_nobody_has_nothing_is_told():
    assert read_stat(NOBODY) is None
    assert identity_of(NOBODY) is None
    assert read_label(NOBODY, "PATH") is None
    assert pids_below(NOBODY) == []
    assert not is_namespace_init(NOBODY)
    assert open_pidfd(Stat(NOBODY, "S", 1, 1, 1, 1)) is None
    assert not send_signal(Stat(NOBODY, "S", 1, 1, 1, 1), signal.SIGTERM)


def test_only_that_very_process_of_this_boot_is_alive(ended):
    mine = identity_of(os.getpid())
    assert is_alive(mine)
    assert not is_alive(mine._replace(start_time=mine.start_time - 1))
    assert not is_alive(mine._replace(boot_id="another"))
    assert not is_alive(identity_of(ended.pid)), "a zombie does not run"


def test_the_first_process_of_our_own_namespace_is_none_of_a_box():
    assert not is_namespace_init(1)


def test_a_pid_that_was_reused_is_not_pinned_and_nothing_stays_open():
    mine = read_stat(os.getpid())
    before = open_fds()
    assert open_pidfd(mine._replace(start_time=mine.start_time - 1)) is None
    assert open_fds() == before


def test_who_ends_between_the_pin_and_the_signal_was_not_there(monkeypatch):
    def gone(_fd, _signum):
        raise ProcessLookupError

    monkeypatch.setattr(procfs.signal, "pidfd_send_signal", gone)
    before = open_fds()
    assert not send_signal(read_stat(os.getpid()), signal.SIGTERM)
    assert open_fds() == before


def test_families_that_were_read_while_a_pid_was_reused_have_no_end_of_their_own():
    """Each is the parent of the other: they were not read at one moment."""
    one, two = Pid(10), Pid(11)
    stats = [Stat(one, "S", two, 1, 1, 5), Stat(two, "S", one, 1, 1, 5)]
    assert {stat.pid for stat in with_descendants(stats[:1], stats)} == {10, 11}
    assert ancestors(one, stats) == {10, 11}


def test_pids_below_are_those_of_all_generations():
    process = subprocess.Popen(
        ["sh", "-c", "sh -c 'sleep 600 & echo up; wait' & wait"],
        stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == b"up\n"
        assert len(pids_below(process.pid)) == 2
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


# --- a process whose first thread has ended -------------------------------------------------------

EXIT = {"x86_64": 60, "aarch64": 93}.get(platform.machine(), 0)
"""The number of the system call that ends one thread."""
HEADLESS = f"""
import ctypes, threading, time
def rest():
    print("up", flush=True)
    time.sleep(600)
threading.Thread(target=rest).start()
ctypes.CDLL(None).syscall({EXIT}, 0)
"""
needs_exit = pytest.mark.skipif(not EXIT, reason="the number of exit is not known here")


async def headless(spawner, scope):
    process = await spawner.spawn(scope, [sys.executable, "-c", HEADLESS], grace_s=0.4)
    assert await process.stdout.read() == b"up\n"
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2][1] != "Z":
        pass  # its first thread is just ending
    return process


@needs_exit
async def test_a_process_whose_first_thread_has_ended_still_runs(world, spawner):
    process = await headless(spawner, world)
    assert not read_stat(process.pid).gone
    assert is_alive(process.identity)
    assert [stat.pid for stat in process.members()] == [process.pid]
    await process.stop()
    assert process.returncode is not None


@needs_exit
def test_who_hides_its_first_thread_ends_with_the_gateway(start):
    """It is found, so nobody waits for it for ever."""
    source = os.path.dirname(os.path.dirname(sys.modules["tenure"].__file__))
    process = start(
        f"import subprocess, sys; sys.path.insert(0, {source!r})\n"
        "from tenure.processes.guard import end_descendants\n"
        f"child = subprocess.Popen([sys.executable, '-c', {HEADLESS!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "while open(f'/proc/{child.pid}/stat').read().rpartition(')')[2][1] != 'Z': pass\n"
        "print('left', len(end_descendants()), flush=True)\n"
    )
    assert process.stdout.read() == b"left 0\n"


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_what_cannot_be_told_now_is_not_taken_for_nothing(monkeypatch, code):
    def refuse(*_args, **_more):
        raise OSError(code, os.strerror(code))

    me, before = read_stat(os.getpid()), open_fds()
    for module in (procfs, brand):
        monkeypatch.setattr(module, "open", refuse, raising=False)
    asking = [
        lambda: read_stat(me.pid),
        lambda: read_label(me.pid, "ANY"),
        lambda: open_pidfd(me),
        lambda: send_signal(me, signal.SIGCONT),
        lambda: brand.read_number(me.pid),
    ]
    for ask in asking:
        with pytest.raises(OSError, match=os.strerror(code)):
            ask()
    monkeypatch.undo()
    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(OSError, match=os.strerror(code)):
        open_pidfd(me)
    assert open_fds() == before
