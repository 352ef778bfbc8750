"""The gateway's side of the guard: notice its end, and reap the orphans that come to us."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import call_in_thread
from tenure.processes.guard import Guarded, end_descendants
from tenure.processes.procfs import Stat, all_stats, read_stat

if TYPE_CHECKING:
    from tenure.clock import TimerHandle
    from tenure.processes.spawn import Spawner

LOOK_S = 0.05
"""How long after a child's exit to look for orphans. One that is seen twice in a row is reaped: a
child whose owner is about to take its status is thereby left to its owner. One that may have been
on its way to its owner when it was first seen waits until that start is over, however long."""


def watch_guard(scope: Scope, guarded: Guarded, on_gone: Callable[[], object]) -> None:
    """Call `on_gone` on the loop, once, when the guard is gone. Owned by `scope`.

    The gateway then closes everything. Own this before anything that has children: its release,
    then the last one, does what the guard would have done, and ends whatever is left below us.
    """
    loop = asyncio.get_running_loop()
    lost = False

    def gone() -> None:
        nonlocal lost
        lost = True
        loop.remove_reader(guarded.alive_fd)
        on_gone()

    async def release(fd: int) -> None:
        loop.remove_reader(fd)
        os.close(fd)
        if lost:
            await call_in_thread(end_descendants)

    loop.add_reader(guarded.alive_fd, gone)
    scope.own("guard watch", guarded.alive_fd, release, pid=guarded.guard_pid)


class OrphanReaper:
    """Reaps adopted orphans, each by its pid and never with ``waitpid(-1)``.

    Woken by SIGCHLD, so it costs nothing while nothing ends. Make it on the main thread.

    Args:
        scope: owns the signal handler; its end restores the previous one.
        spawner: whose children are left to it.
    """

    def __init__(self, scope: Scope, spawner: Spawner) -> None:
        self._scope = scope
        self._spawner = spawner
        self._loop = asyncio.get_running_loop()
        self._timer: TimerHandle | None = None
        self._seen: dict[Stat, frozenset[int]] = {}
        """What was there at the last look, and what was being started when it was first seen."""
        self.reaped = 0
        """How many so far."""
        previous = signal.signal(signal.SIGCHLD, self._on_signal)
        scope.own("orphan reaper", self, lambda reaper: reaper.stop(previous))

    def _on_signal(self, _signum: int, _frame: FrameType | None) -> None:
        self._loop.call_soon_threadsafe(self._arm)

    def _arm(self) -> None:
        if self._timer is None and self._scope.admits:
            self._timer = self._scope.clock.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._timer = None
        try:
            there = children(self._spawner.knows)
        except OSError:  # no descriptor is left to look with
            self._arm()
            return
        zombies = {stat._replace(ppid=0) for stat in there if stat.state == "Z"}
        starting = frozenset(self._spawner.starting)
        seen, self._seen = self._seen, {}
        for stat in zombies:
            if stat not in seen or seen[stat] & starting:
                self._seen[stat] = seen.get(stat, starting)
                continue
            try:
                os.waitpid(stat.pid, os.WNOHANG)
            except ChildProcessError:
                continue  # its owner was quicker
            self.reaped += 1
        if self._seen:
            self._arm()

    def stop(self, previous: signal.Handlers | Callable[..., object] | int | None) -> None:
        """The release: put the previous handler back."""
        signal.signal(signal.SIGCHLD, previous or signal.SIG_DFL)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def children(but: Callable[[int], bool]) -> list[Stat]:
    """Our children now, adopted ones and zombies included, without those that `but` names."""
    listings = list(Path("/proc/self/task").glob("*/children"))
    if not listings:
        me = os.getpid()
        return [stat for stat in all_stats() if stat.ppid == me and not but(stat.pid)]
    pids: set[int] = set()
    for listing in listings:
        try:
            pids.update(map(int, listing.read_text().split()))
        except OSError:
            continue  # that thread has just ended
    return [stat for pid in pids if not but(pid) and (stat := read_stat(pid)) is not None]
