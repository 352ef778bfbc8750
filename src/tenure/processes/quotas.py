"""What the children of one session may use: by the kernel where it can be had, else by looking.

Each child of a session gets limits of open files and of the size of a file, which all that it
starts inherits, from the thread that starts it. It goes into the session's control group, where
there can be one (cgroups.py), once it has lived for a moment: a move takes twelve milliseconds, in
which nothing on the machine can fork, and a command takes three. What no kernel limits here (memory
and processes without a group, the disk everywhere) the watchman looks at.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tenure.config import LimitsConfig
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import call_in_thread
from tenure.processes.cgroups import (
    EMPTY_S,
    PREFIX,
    REAL,
    Files,
    Group,
    Place,
    hand_down,
    look_for_place,
)
from tenure.processes.procfs import LINUX, Stat, pids_below

log = logging.getLogger("tenure.processes")

MIB = 1 << 20
TASKS_EACH = 4
"""The kernel counts threads: a group may have that many times the session's processes."""
ADMIT_AFTER_S = 0.03
"""So long a child must live to be moved into the group, with what it has started by then."""
ROUNDS_MAX = 20
"""Looks for what was forked while others were being moved."""
DISK_EVERY_S = 5.0
DISK_SHARE = 50
"""A look at the disk that takes long is repeated the later: after that many times as long."""
ENTRIES_MAX = 200_000
"""One look at the disk counts no more than that many files."""


class Arriving(NamedTuple):
    """A tree that goes into its session's group."""

    pid: int
    """Of its first process."""
    members: Callable[[], list[Stat]]
    """All that runs of it. Blocks."""


class Ceiling(NamedTuple):
    """What the processes of one session may use; 0: as much as they like."""

    memory_mib: int = 0
    """All of them together."""
    processes: int = 0
    """At one time."""
    open_files: int = 0
    """Each."""
    disk_mib: int = 0
    """What the session's own folders hold together, and each file that its processes write."""


def ceiling_of(limits: LimitsConfig) -> Ceiling:
    """The limits as they are configured."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MIB
    return Ceiling(
        limits.session_memory_mib or machine * 3 // 4,
        limits.session_processes,
        limits.session_open_files,
        limits.session_disk_mib,
    )


class Quota:
    """What one session may use, and its group. Made by `Quotas.of`.

    Attributes:
        owner: the session.
        group: its group; None: the machine has none for it, or nothing has been started yet.
        kernel: the controllers that keep its limits.
        folders: what of the disk is its own.
        users: trees that are starting or running.
        closing: its lease has been released; the last tree takes the group along.
    """

    def __init__(self, owner: str, quotas: Quotas) -> None:
        self.owner = owner
        self.group: Group | None = None
        self.kernel: frozenset[str] = frozenset()
        self.users = 0
        self.closing = False
        self._quotas = quotas
        self._tried = False
        self._arriving: list[Arriving] = []
        self._admitting: asyncio.Future[None] | None = None
        self._written: Ceiling | None = None
        self._disk_due_s = 0.0
        self._disk_bytes = 0

    @property
    def ceiling(self) -> Ceiling:
        """As it is configured now."""
        return self._quotas.ceiling()

    def bind(self, pid: int) -> None:
        """Limit a child that has just been started. Blocks a moment; for `Launcher`.

        What fails is told in the log: the child runs, and the watchman looks at it.
        """
        try:
            ceiling = self.ceiling
            for one in (pid, *pids_below(pid)):  # it may have been quicker
                _bound(one, resource.RLIMIT_NOFILE, ceiling.open_files)
                _bound(one, resource.RLIMIT_FSIZE, ceiling.disk_mib * MIB)
        except Exception:
            log.exception("Process %s of %s has no limits by the kernel", pid, self.owner)

    def begin_admit(self, tree: Arriving) -> None:
        """Take a tree into the group, in a thread, which whoever removes the group waits for."""
        self._arriving.append(tree)
        self._admit_more()

    def _admit_more(self) -> None:
        """One thread at a time."""
        if self._arriving and self._admitting is None:
            trees, self._arriving = self._arriving, []
            self._admitting = call_in_thread(self.admit, trees)
            self._admitting.add_done_callback(self._admitted)

    def _admitted(self, work: asyncio.Future[None]) -> None:
        self._admitting = None
        if not work.cancelled() and (error := work.exception()) is not None:
            log.error("Something of %s is in no control group", self.owner, exc_info=error)
        self._admit_more()

    def admit(self, trees: Sequence[Arriving]) -> None:
        """Take trees into the group, which is made for the first. Blocks, in a thread."""
        self._prepare(self.ceiling)
        if self.group is None:
            return
        self.group.admit([tree.pid for tree in trees])  # what they start from now on is in it
        for tree in trees:
            for _ in range(ROUNDS_MAX):
                outside = {stat.pid for stat in tree.members()} - self.group.members()
                if not outside or not self.group.admit(outside):
                    break

    def _prepare(self, ceiling: Ceiling) -> None:
        if not self._tried:
            self._tried = True
            self.group, self.kernel = self._quotas.group_for(self.owner)
        if self.group is None or self._written == ceiling:
            return
        self._written = ceiling
        self.group.limit("memory.max", ceiling.memory_mib * MIB)
        self.group.close_swap()
        self.group.limit("pids.max", ceiling.processes * TASKS_EACH)

    def readmit(self, pids: Iterable[int]) -> None:
        """Take in what has got out: what was forked before its parent was in. Blocks."""
        if self.group is not None:
            self.group.admit(set(pids) - self.group.members())

    def exited(self, returncode: int) -> str:
        """Why a limit has ended a child, in a few words; empty if none did. Reads one file."""
        if returncode in _by(signal.SIGXFSZ):
            limit = self.ceiling.disk_mib
            return f"a file grew to {limit} MiB, the limit (limits.session_disk_mib)"
        killed = returncode in _by(signal.SIGKILL) and self.group is not None
        if killed and self.group and self.group.happened("memory.events", "oom_kill"):
            limit = self.ceiling.memory_mib
            return (
                f"the session's processes needed more memory; the limit is {limit} MiB "
                "(limits.session_memory_mib)"
            )
        return ""

    def swarming(self) -> str:
        """That more was to be started than may be, since the last time; empty if not. Blocks."""
        if self.group is None or not self.group.happened("pids.events", "max"):
            return ""
        limit = self.ceiling.processes
        return (
            f"the session wanted over {limit * TASKS_EACH} threads; the limit is {limit} "
            f"processes and {limit * TASKS_EACH} threads (limits.session_processes)"
        )

    def overfull(self, now_s: float) -> str:
        """That its folders hold too much and still grow; empty if not, or too soon. Blocks.

        What does not grow any more ends nobody: somebody may be clearing up.
        """
        limit = self.ceiling.disk_mib
        if not limit or now_s < self._disk_due_s:
            return ""
        begun = time.monotonic()
        used = sum(map(disk_bytes, self._quotas.folders_of(self.owner)))
        took = time.monotonic() - begun
        self._disk_due_s = now_s + max(DISK_EVERY_S, took * DISK_SHARE)
        grown, self._disk_bytes = used > self._disk_bytes, used
        if used <= limit * MIB or not grown:
            return ""
        return (
            f"the session's own folders held {used // MIB} MiB; the limit is {limit} MiB "
            "(limits.session_disk_mib)"
        )

    async def left(self) -> None:
        """A tree has ended."""
        self.users -= 1
        await self.leave()

    async def leave(self) -> None:
        """Remove the group, once nobody can need it any more."""
        if not self.closing or self.users:
            return
        self._arriving.clear()
        if self._admitting is not None:
            await asyncio.wait({self._admitting})
        group, self.group = self.group, None
        if group is not None and not await call_in_thread(group.remove):
            log.warning("The control group %s cannot be removed", group.path)


class Quotas:
    """The quotas of a gateway's sessions, each from its first child to its end.

    Args:
        instance: the gateway's run; part of the name of each group.
        ceiling: the limits in force.
        look: finds the place for groups, when the first is needed.
        files: of the hierarchy.
    """

    def __init__(
        self,
        instance: str,
        ceiling: Callable[[], Ceiling],
        look: Callable[[], Place] = look_for_place,
        files: Files = REAL,
    ) -> None:
        self.ceiling = ceiling
        self.roots: set[Path] = set()
        """Folders in which each session has one of its own, named after it."""
        self._instance = instance
        self._look = look
        self._files = files
        self._place: Place | None = None
        self._kernel: frozenset[str] = frozenset()
        self._quotas: dict[str, Quota] = {}

    def of(self, scope: Scope, owner: str) -> Quota | None:
        """The quota of the session that `scope` is in; its scope owns the lease.

        Returns:
            None where `owner` is no session, or one that admits nothing any more.
        """
        name = f"session:{owner}"
        session: Scope | None = scope
        while session is not None and session.name != name:
            session = session.parent
        if session is None or not session.admits:
            return None
        found = self._quotas.get(owner)
        if found is not None:
            return found
        quota = self._quotas[owner] = Quota(owner, self)
        session.own("limits", quota, self._release, grace_s=EMPTY_S + 1.0)
        return quota

    def get(self, owner: str) -> Quota | None:
        """The quota of a session that has started something."""
        return self._quotas.get(owner)

    async def _release(self, quota: Quota) -> None:
        del self._quotas[quota.owner]
        quota.closing = True
        await quota.leave()

    def group_for(self, owner: str) -> tuple[Group | None, frozenset[str]]:
        """A new group, and the controllers that keep limits in it. Blocks; for `Quota`."""
        if self._place is None:
            self._place = self._look()
            if self._place.path:
                self._kernel = hand_down(self._place.path, self._files)
            log.info("Control groups: %s", self._place.why or self._place.path)
        if not self._place.path:
            return None, frozenset()
        group = Group(f"{self._place.path}/{PREFIX}{self._instance}.{owner}", self._files)
        try:
            with contextlib.suppress(FileExistsError):  # of an earlier life of this session
                group.make()
        except OSError as exc:
            log.warning("No control group for session %s: %s", owner, exc)
            return None, frozenset()
        return group, self._kernel

    def folders_of(self, owner: str) -> list[Path]:
        """The folders of a session."""
        return [root / owner for root in tuple(self.roots)]


def disk_bytes(folder: Path) -> int:
    """What a folder holds on disk, as far as it may be entered; links are not followed. Blocks."""
    total, count, queue = 0, 0, [str(folder)]
    while queue and count < ENTRIES_MAX:
        with contextlib.suppress(OSError), os.scandir(queue.pop()) as entries:
            for entry in entries:
                count += 1
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        queue.append(entry.path)
    return total


def _bound(pid: int, what: int, value: int) -> None:
    """Set a limit of another process, never above what it has; 0 sets none."""
    if not value or not LINUX:
        return
    with contextlib.suppress(OSError, ValueError):  # it is over, or not ours any more
        _, hard = resource.prlimit(pid, what)
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.prlimit(pid, what, (most, most))


def _by(signum: int) -> tuple[int, int]:
    """The exit status of whom a signal ended: itself, and as a shell or a box tells it."""
    return -signum, 128 + signum
