"""Control groups (cgroup v2): a session's processes in a group that the kernel keeps the limits of.

Used where a cgroup has been given to us: a service with ``Delegate=yes``, or all of a container's
own tree. On a machine whose controllers belong to version 1 a group has no limits, and still
holds and ends what is in it. Everything here blocks, for less than a millisecond as a rule; moving
a process can take fifteen. Callers are threads.

    the place that was given to us      controllers are handed down from here
    ├── tenure.gateway                  where controllers are handed down, no process may stay above
    └── tenure.INSTANCE.SESSION         one for each session that has started anything
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from tenure.processes.procfs import all_stats, ancestors, with_descendants

PREFIX = "tenure."
LEAF = f"{PREFIX}gateway"
"""Never the name of a session's group: that has another dot."""
DELEGATED = ("user.delegate", "trusted.delegate")
"""What systemd marks a cgroup with that it has given away."""
WANTED = ("memory", "pids")
EMPTY_S = 2.0
"""How long what was killed may take to leave a group."""
FROZEN_S = 0.05
LOOK_S = 0.002


class Files(Protocol):
    """The files of a hierarchy; real ones, or a double's."""

    def read(self, path: str) -> str:
        """All of a file; OSError where it cannot be read."""

    def write(self, path: str, text: str) -> None:
        """One write; OSError where it is refused."""

    def make(self, path: str) -> None:
        """Make a group."""

    def remove(self, path: str) -> None:
        """Remove an empty group; OSError where it is not."""

    def names(self, path: str) -> list[str]:
        """The groups in a group."""

    def given(self, path: str) -> bool:
        """Whether it was given to us by its owner."""


class RealFiles:
    """The hierarchy of this machine."""

    def read(self, path: str) -> str:
        """See `Files`."""
        with open(path) as file:  # noqa: PTH123 - hot path
            return file.read()

    def write(self, path: str, text: str) -> None:
        """See `Files`. Unbuffered: the kernel takes one write as one order."""
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def make(self, path: str) -> None:
        """See `Files`."""
        os.mkdir(path, 0o755)  # noqa: PTH102

    def remove(self, path: str) -> None:
        """See `Files`."""
        os.rmdir(path)  # noqa: PTH106

    def names(self, path: str) -> list[str]:
        """See `Files`."""
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]

    def given(self, path: str) -> bool:
        """See `Files`: by systemd's mark, or as a folder of ours in one that is not."""
        for name in DELEGATED:
            with contextlib.suppress(OSError):
                if os.getxattr(path, name) == b"1":
                    return True
        me = os.geteuid()
        own, above = os.stat(path), os.stat(os.path.dirname(path))  # noqa: PTH116, PTH120
        return own.st_uid == me != above.st_uid


REAL = RealFiles()


class Place(NamedTuple):
    """Where groups may be made. Made by `find_place`.

    Attributes:
        path: of the group below which they are made; empty: nowhere.
        why: why nowhere, in a few words.
    """

    path: str
    why: str = ""


def find_place(mounts: str, own: str, files: Files = REAL) -> Place:
    """The cgroup that was given to this process.

    Args:
        mounts: ``/proc/self/mountinfo``.
        own: ``/proc/self/cgroup``.
        files: of the hierarchy.
    """
    path = next((line[3:] for line in own.splitlines() if line.startswith("0::")), "")
    mounted = _mounted(mounts)
    if not path or mounted is None:
        return Place("", "this system has no cgroup v2")
    top, root = mounted
    if path.endswith(f"/{LEAF}"):
        path = path.removesuffix(f"/{LEAF}") or "/"  # a gateway of ours has been given it before
    elif path != "/":
        inside = path.removeprefix(root) if root != "/" else path
        try:
            if not files.given(top + inside):
                return Place("", f"the cgroup {path} was not given to the gateway (Delegate=yes)")
        except OSError:
            return Place("", f"the cgroup {path} cannot be seen")
    inside = path.removeprefix(root) if root != "/" else path
    place = (top + inside).rstrip("/")
    return Place(place) if _writable(place, files) else Place("", f"{place} is not writable")


def _mounted(mounts: str) -> tuple[str, str] | None:
    """Where cgroup v2 is mounted, and what of it is."""
    for line in mounts.splitlines():
        first, _, last = line.partition(" - ")
        if last.startswith("cgroup2 "):
            fields = first.split()
            return fields[4], fields[3]
    return None


def _writable(place: str, files: Files) -> bool:
    """Whether a group can be made there: nothing else tells for certain."""
    trial = f"{place}/{PREFIX}trial-{os.getpid()}"
    try:
        files.make(trial)
        files.remove(trial)
    except OSError:
        return False
    return True


def look_for_place(pid: int = 0) -> Place:
    """`find_place` for a process, this one by itself, on this machine."""
    try:
        own = REAL.read(f"/proc/{pid or 'self'}/cgroup")
        return find_place(REAL.read("/proc/self/mountinfo"), own)
    except OSError:
        return Place("", "this system has no cgroups")


def offered(place: str, files: Files = REAL) -> frozenset[str]:
    """The controllers that limits need and that could be handed down there."""
    try:
        return frozenset(files.read(f"{place}/cgroup.controllers").split()).intersection(WANTED)
    except OSError:
        return frozenset()


def hand_down(place: str, files: Files = REAL) -> frozenset[str]:
    """Have the groups below `place` get the controllers that limits need; which they have then.

    Where no process may stay in a group that hands controllers down, we go to a group of our own,
    with what we have started and what has started us.
    """
    try:
        down = files.read(f"{place}/cgroup.subtree_control").split()
        missing = offered(place, files).difference(down)
        if missing:
            order = " ".join(f"+{name}" for name in sorted(missing))
            try:
                files.write(f"{place}/cgroup.subtree_control", order)
            except OSError:
                _step_down(place, files)
                files.write(f"{place}/cgroup.subtree_control", order)
        down = files.read(f"{place}/cgroup.subtree_control").split()
    except OSError:
        return frozenset()
    return frozenset(down).intersection(WANTED)


def _step_down(place: str, files: Files) -> None:
    with contextlib.suppress(FileExistsError):
        files.make(f"{place}/{LEAF}")
    stats = all_stats()
    me = [stat for stat in stats if stat.pid == os.getpid()]
    related = {stat.pid for stat in with_descendants(me, stats)} | ancestors(os.getpid(), stats)
    for pid in _pids(files.read(f"{place}/cgroup.procs")):
        if pid in related:
            _move(f"{place}/{LEAF}", pid, files)


class Group:
    """The group of one session.

    Args:
        path: of the group; it is made by `make`.
        files: of the hierarchy.
    """

    __slots__ = ("_events", "_files", "path")

    def __init__(self, path: str, files: Files = REAL) -> None:
        self.path = path
        self._files = files
        self._events: dict[str, int] = {}

    def make(self) -> None:
        """Make it.

        Raises:
            OSError: it cannot be made.
        """
        self._files.make(self.path)

    def limit(self, name: str, value: int) -> None:
        """Write a limit; 0 is none. Nothing happens where the group has no such file."""
        with contextlib.suppress(OSError):
            self._files.write(f"{self.path}/{name}", str(value) if value else "max")

    def close_swap(self) -> None:
        """Have no memory of it swapped out, where there is such a limit: it would not count."""
        with contextlib.suppress(OSError):
            self._files.write(f"{self.path}/memory.swap.max", "0")

    def admit(self, pids: Iterable[int]) -> bool:
        """Take processes in; what they start from now on begins in it. Whether all were."""
        moved = [_move(self.path, pid, self._files) for pid in pids]
        return all(moved)

    def members(self) -> set[int]:
        """What is in it now."""
        try:
            return set(_pids(self._files.read(f"{self.path}/cgroup.procs")))
        except OSError:
            return set()

    def happened(self, file: str, key: str) -> bool:
        """Whether an event has been counted since the last time this was asked."""
        try:
            lines = self._files.read(f"{self.path}/{file}").splitlines()
        except OSError:
            return False
        count = next((int(line.split()[1]) for line in lines if line.split()[:1] == [key]), 0)
        before, self._events[key] = self._events.get(key, 0), count
        return count > before

    def freeze(self, *, frozen: bool) -> bool:
        """Stop or continue all of it at one instant; whether that is so within 50 ms."""
        try:
            self._files.write(f"{self.path}/cgroup.freeze", str(int(frozen)))
            deadline = time.monotonic() + FROZEN_S
            while f"frozen {int(frozen)}" not in self._files.read(f"{self.path}/cgroup.events"):
                if time.monotonic() > deadline:
                    return False
                time.sleep(LOOK_S)
        except OSError:
            return False
        return True

    def kill(self) -> bool:
        """End everything in it, at once; whether it is empty then."""
        with contextlib.suppress(OSError):
            self._files.write(f"{self.path}/cgroup.kill", "1")
        deadline = time.monotonic() + EMPTY_S
        while self.members():
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_S)
        return True

    def remove(self) -> bool:
        """End what is in it, and remove it with all groups in it; whether it has gone."""
        with contextlib.suppress(OSError):
            for name in self._files.names(self.path):
                Group(f"{self.path}/{name}", self._files).remove()
        deadline = time.monotonic() + EMPTY_S
        while True:
            try:
                self._files.remove(self.path)
            except FileNotFoundError:
                return True
            except OSError:
                self.kill()
                if time.monotonic() > deadline:
                    return False
                time.sleep(LOOK_S)  # what has just ended may still be counted
            else:
                return True


def sweep(place: str, is_dead: Callable[[str], bool], files: Files = REAL) -> int:
    """End and remove the groups of gateways that are dead; how many there were.

    Args:
        place: see `find_place`.
        is_dead: of an instance, by its name.
        files: of the hierarchy.
    """
    count = 0
    for name in files.names(place):
        instance, dot, _ = name.removeprefix(PREFIX).partition(".")
        if name.startswith(PREFIX) and dot and is_dead(instance):
            count += Group(f"{place}/{name}", files).remove()
    return count


def _move(path: str, pid: int, files: Files) -> bool:
    try:
        files.write(f"{path}/cgroup.procs", str(pid))
    except ProcessLookupError:
        return True  # it is over, and nothing is left of it
    except OSError:
        return False
    return True


def _pids(text: str) -> list[int]:
    return [int(line) for line in text.split()]
