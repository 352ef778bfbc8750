"""Ending a whole tree of processes, for certain. Standard library only: the guard imports this.

What is to be ended is found again and again, until nothing is: a process can fork while it is being
ended. The gateway finds the trees of its children with the roll (roll.py).
Everything here blocks; on the loop it is called in a thread.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Sequence

from tenure.processes.procfs import Stat, open_pidfd, read_stat, send_signal

LABEL = "TENURE_OWNER"
"""The variable that says whose a process is: ``instance/owner/spawner-number``."""

KILL_S = 2.0
"""How long SIGKILL may take to empty a tree. It acts within milliseconds unless a process sits in
an uninterruptible call."""

RESCAN_S = 0.1
"""How long to wait before looking for what has been forked since; the wait ends at once when all
that was found has ended."""

POLL_S = 0.02
"""Between looks where there are no pidfds to wait on."""

Find = Callable[[], list[Stat]]
Step = tuple[int, float]
"""A signal, and how many seconds the tree gets to end by it."""


def end_all(find: Find, steps: Sequence[Step], *, kill_s: float = KILL_S) -> list[Stat]:
    """End everything that `find` finds: `steps` in order, then SIGKILL until nothing is found.

    Where descriptors are used up it goes on until it could look and signal: what cannot be seen
    has not ended.

    Returns:
        What still runs after `kill_s` seconds of SIGKILL; empty in all but pathological cases.
    """
    for signum, seconds in steps:
        if not _end_by(find, signum, seconds):
            return []
    return _end_by(find, signal.SIGKILL, kill_s)


def _end_by(find: Find, signum: int, seconds: float) -> list[Stat]:
    """Send `signum` to each process found, once each, and wait; what is left at the deadline."""
    deadline = time.monotonic() + seconds
    told: set[tuple[int, int]] = set()
    while True:
        left = _found(find)
        if not left:
            return []
        for stat in left:
            if (stat.pid, stat.start_time) in told:
                continue
            try:
                send_signal(stat, signum)
                if signum != signal.SIGKILL:
                    send_signal(stat, signal.SIGCONT)  # a stopped process handles nothing
            except OSError:  # at the next look; until then nobody has been given any time
                deadline = max(deadline, time.monotonic() + RESCAN_S)
                continue
            told.add((stat.pid, stat.start_time))
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return left
        wait_gone(left, min(remaining, RESCAN_S))


def _found(find: Find) -> list[Stat]:
    """What is found, as soon as somebody can look."""
    while True:
        try:
            return find()
        except OSError:  # no descriptor is left; what ends gives some back
            time.sleep(RESCAN_S)


def wait_gone(stats: Sequence[Stat], seconds: float) -> None:
    """Wait until all of `stats` have ended, at most `seconds`."""
    deadline = time.monotonic() + seconds
    pidfds: list[int] = []
    try:
        for stat in stats:
            if (fd := open_pidfd(stat)) is not None:
                pidfds.append(fd)  # noqa: PERF401 - to be closed if the next fails
        if not pidfds:
            _poll_gone(stats, deadline)
            return
        poller = select.poll()
        for fd in pidfds:
            poller.register(fd, select.POLLIN)
        waiting = set(pidfds)
        while waiting and (remaining := deadline - time.monotonic()) > 0:
            for fd, _ in poller.poll(remaining * 1000):
                poller.unregister(fd)
                waiting.discard(fd)
    except OSError:  # no descriptor to wait on
        time.sleep(max(0.0, min(POLL_S, deadline - time.monotonic())))
    finally:
        for fd in pidfds:
            os.close(fd)


def _poll_gone(stats: Sequence[Stat], deadline: float) -> None:
    """The same where the system has no pidfds."""
    while time.monotonic() < deadline:
        if not any(_runs(stat) for stat in stats):
            return
        time.sleep(min(POLL_S, max(0.0, deadline - time.monotonic())))


def _runs(stat: Stat) -> bool:
    try:
        now = read_stat(stat.pid)
    except OSError:
        return True  # as far as anybody can tell
    return now is not None and not now.gone and now.start_time == stat.start_time
