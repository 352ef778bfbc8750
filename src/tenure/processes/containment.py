"""Ending a whole tree of processes, for certain. Standard library only: the guard imports this.

A tree is found by its session and group (every child of ours leads its own), by parents, and by the
label in the environment, which catches what has forked away into a session of its own. Each scan is
followed by another, until one finds nothing: a process can fork while it is being ended.
Everything here blocks; on the loop it is called in a thread.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from tenure.processes.brand import read_number
from tenure.processes.procfs import (
    Stat,
    all_stats,
    open_pidfd,
    read_label,
    read_stat,
    send_signal,
    with_descendants,
)

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


class Root(NamedTuple):
    """The first process of a tree, and the label that all of it started with."""

    pid: int
    start_time: int
    label: str
    number: int = 0
    """What a cleared environment does not take off; see `brand.numbered`. 0: none."""


def tree_members(root: Root, others: Collection[int] = ()) -> list[Stat]:
    """What runs of the tree now (zombies excluded), our own process and its parent never.

    Args:
        root: of the tree.
        others: first processes of other trees, which run: what is in a session of theirs is theirs,
            so its label is not read (with a thousand trees that is most of the time).
    """
    stats = all_stats()
    leader = next((stat for stat in stats if stat.pid == root.pid), None)
    # A session's id stays taken while it has members: another process by that pid means none left.
    ours = leader is None or leader.start_time == root.start_time
    spared = {0, 1, os.getpid(), os.getppid()}
    later = [stat for stat in stats if stat.start_time >= root.start_time and not stat.gone]
    first = [stat for stat in later if ours and root.pid in {stat.pid, stat.pgrp, stat.session}]
    known = {stat.pid for stat in with_descendants(first, later)}
    if root.label:
        first += [
            stat
            for stat in later
            if stat.pid not in known
            and stat.pid not in spared
            and stat.session not in others
            and _is_of(stat, root)
        ]
    return [stat for stat in with_descendants(first, later) if stat.pid not in spared]


def _is_of(stat: Stat, root: Root) -> bool:
    """Whether its label says so, or, where it has none, its number."""
    label = read_label(stat.pid, LABEL)
    if label:
        return label == root.label
    return bool(root.number) and read_number(stat.pid) == root.number


def end_all(find: Find, steps: Sequence[Step], *, kill_s: float = KILL_S) -> list[Stat]:
    """End everything that `find` finds: `steps` in order, then SIGKILL until nothing is found.

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
        left = find()
        if not left:
            return []
        for stat in left:
            if (stat.pid, stat.start_time) not in told:
                told.add((stat.pid, stat.start_time))
                send_signal(stat, signum)
                if signum != signal.SIGKILL:
                    send_signal(stat, signal.SIGCONT)  # a stopped process handles nothing
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return left
        wait_gone(left, min(remaining, RESCAN_S))


def wait_gone(stats: Sequence[Stat], seconds: float) -> None:
    """Wait until all of `stats` have ended, at most `seconds`."""
    deadline = time.monotonic() + seconds
    pidfds = [fd for stat in stats if (fd := open_pidfd(stat)) is not None]
    try:
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
    now = read_stat(stat.pid)
    return now is not None and not now.gone and now.start_time == stat.start_time
