"""The guard: the process above the gateway, so that nothing can outlive the gateway.

    launched process ── start_guard() ──┬── stays: the guard (this file; standard library only)
                                        └── fork: the gateway, which goes on and imports the rest

Both are child subreapers: whatever a child of the gateway forks away, in whatever session and with
whatever environment, gets one of them as its parent when its own has died. When the gateway is
gone, the guard ends what is left below it, again and again until nothing is, and exits as the
gateway did. When the guard is gone, a pipe tells the gateway, which closes everything and exits
(`watch_guard` in watch.py). When both are killed at one instant, the next start sweeps
(reconcile.py).

Linux only. Elsewhere no process can adopt orphans: there is no guard, and the sweep remains.
"""

from __future__ import annotations

import os
import signal
import time
from typing import NamedTuple, NoReturn

from tenure.processes.containment import end_all
from tenure.processes.procfs import LINUX, Stat, all_stats, read_stat, with_descendants

PR_SET_CHILD_SUBREAPER = 36
TERM_S = 0.25
"""How long what is left behind may take to end by SIGTERM before SIGKILL. Short: whoever could have
asked nicely is dead."""
STOP_CONFIRM_S = 0.05
"""How long a gateway must stay stopped before the guard stops with it: a continue that is sent to
both reaches one of them first."""

# Left alone, with their default action: what stops and continues the whole job of a terminal.
_JOB_CONTROL = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT}
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP}


class Guarded(NamedTuple):
    """What the gateway knows of its guard."""

    guard_pid: int
    alive_fd: int
    """Reads as ended when the guard is gone. Owned by the gateway, close-on-exec."""


def start_guard() -> Guarded | None:  # noqa: RET503 - the guard does not return
    """Fork: the caller goes on as the gateway, its parent stays as the guard.

    Call it first of all: before threads (a fork loses them) and heavy imports (the guard would
    carry them).

    Returns:
        In the gateway: its guard. None where the system has no subreapers. In the guard this never
        returns; it ends the process.
    """
    if not LINUX or not become_subreaper():
        return None
    watched = signal.valid_signals() - _JOB_CONTROL - _FAULTS
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)  # so that none is lost until we wait
    reader, writer = os.pipe()
    guard_pid = os.getpid()
    gateway = os.fork()
    if gateway == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(writer)
        become_subreaper()  # a fork does not inherit it
        return Guarded(guard_pid, reader)
    _be_guard(gateway, watched, writer)


def become_subreaper() -> bool:
    """Adopt the orphans among our descendants from now on; False where that cannot be had."""
    import ctypes

    try:
        libc = ctypes.CDLL(None, use_errno=True)
        return bool(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def end_descendants() -> list[Stat]:
    """End everything below this process, TERM then KILL, until nothing is left.

    Blocks, and reaps every child: the last act of a guard, or of a gateway that has lost its guard.

    Returns:
        What survived; empty but for processes stuck in the kernel.
    """
    while True:
        left = end_all(_descendants, [(signal.SIGTERM, TERM_S)])
        if left or not _reap():
            return left


def _be_guard(gateway: int, watched: set[signal.Signals], writer: int) -> NoReturn:
    code = 70
    try:
        _let_go_of_descriptors(writer)
        status = _wait_for(gateway, watched)
        end_descendants()
        _die_like(status)
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    finally:
        os._exit(code)  # whatever happens, the guard never runs the gateway's code


def _let_go_of_descriptors(keep: int) -> None:
    """Whoever reads the gateway's output must see its end when the gateway ends, not when we do."""
    os.closerange(3, keep)
    os.closerange(keep + 1, os.sysconf("SC_OPEN_MAX"))
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def _wait_for(gateway: int, watched: set[signal.Signals]) -> int:
    """Pass signals on and reap orphans until the gateway has exited; its wait status."""
    while True:
        info = signal.sigwaitinfo(watched)
        if info.si_signo == signal.SIGCHLD:
            status = _reap_for(gateway)
            if status is not None:
                return status
        elif info.si_signo == signal.SIGHUP or (info.si_code <= 0 and info.si_pid != gateway):
            # Sent by a process. What the terminal sends (Ctrl-C) has reached the gateway already:
            # it is in the same foreground group. But that the terminal is gone is told to the
            # leader of its session alone, which the guard is where the terminal has started us.
            os.kill(gateway, info.si_signo)


def _reap_for(gateway: int) -> int | None:
    """Reap what has exited; the gateway's status if it is among that."""
    found: int | None = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if os.WIFSTOPPED(status):
            if pid == gateway and os.WSTOPSIG(status) in _JOB_CONTROL:
                _stop_too(gateway)
        elif pid == gateway:
            found = status


def _stop_too(gateway: int) -> None:
    """The gateway has suspended itself: the shell waits for *our* stop before it goes on."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return  # no terminal, no job control
    time.sleep(STOP_CONFIRM_S)
    stat = read_stat(gateway)
    if stat is not None and stat.state == "T":
        os.kill(os.getpid(), signal.SIGSTOP)


def _descendants() -> list[Stat]:
    _reap()
    me = os.getpid()
    stats = all_stats()
    below = with_descendants([stat for stat in stats if stat.ppid == me], stats)
    return [stat for stat in below if not stat.gone]


def _reap() -> bool:
    """Reap every child that has exited; whether any child is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _die_like(status: int) -> None:
    """If a signal ended the gateway, let it end us too, so that a shell sees the same."""
    if not os.WIFSIGNALED(status):
        return
    import resource

    signum = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core file is enough
    if signum != signal.SIGKILL:
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signum])
    os.kill(os.getpid(), signum)  # without effect as pid 1 of a container: the exit code remains
