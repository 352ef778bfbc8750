"""A hierarchy of control groups that is none: for machines where no real one may be written.

It behaves as cgroup v2 does (tests/contract/test_cgroups.py runs the same tests on both): what is
started by a member is a member, a group with members or groups in it cannot be removed, writing
``cgroup.kill`` ends all members. Limits are kept as written; a test says what they have brought
about (`happen`).
"""

from __future__ import annotations

import errno
import os
import signal

from tenure.processes.procfs import Stat, all_stats, read_stat, with_descendants

CONTROLLERS = "cpu memory pids"


class CgroupDouble:
    """See the module; a `Files`.

    Attributes:
        given_to_us: whether `top` was delegated.
        inhabited: `top` has processes of its own, so it hands down nothing before they have left.
        read_only: nothing can be made.
        orders: what was written, in order.
    """

    def __init__(self, top: str = "/top", controllers: str = CONTROLLERS) -> None:
        self.top = top
        self.given_to_us = True
        self.read_only = False
        self.inhabited: set[int] = set()
        self.orders: list[tuple[str, str]] = []
        self._controllers = controllers
        self._groups: dict[str, dict[str, str]] = {top: {"cgroup.subtree_control": ""}}
        self._members: dict[str, dict[int, int]] = {top: {}}

    def happen(self, path: str, file: str, text: str) -> None:
        """The kernel has counted something."""
        self._groups[path][file] = text

    def read(self, path: str) -> str:
        """See `Files`."""
        group, _, name = path.rpartition("/")
        files = self._group(group)
        if name == "cgroup.controllers":
            return self._controllers
        if name == "cgroup.procs":
            return "".join(f"{pid}\n" for pid in self._within(group))
        if name == "cgroup.events":
            return f"populated 1\nfrozen {files.get('cgroup.freeze', '0')}\n"
        if name not in files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return files[name]

    def write(self, path: str, text: str) -> None:
        """See `Files`."""
        group, _, name = path.rpartition("/")
        files = self._group(group)
        self.orders.append((path, text))
        if name == "cgroup.procs":
            self._move(group, int(text))
        elif name == "cgroup.kill":
            for pid in self._within(group):
                os.kill(pid, signal.SIGKILL)
        elif name == "cgroup.freeze":
            for pid in self._within(group):
                os.kill(pid, signal.SIGSTOP if text == "1" else signal.SIGCONT)
            files[name] = text
        elif name == "cgroup.subtree_control":
            if self.inhabited or self._within(group):
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
            files[name] = text.replace("+", "")
        elif name.partition(".")[0] in self._handed_down(group):
            files[name] = text
        else:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def make(self, path: str) -> None:
        """See `Files`."""
        if self.read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        self._group(path.rpartition("/")[0])
        if path in self._groups:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._groups[path], self._members[path] = {}, {}

    def remove(self, path: str) -> None:
        """See `Files`."""
        self._group(path)
        if self._within(path) or self.names(path):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
        del self._groups[path], self._members[path]

    def names(self, path: str) -> list[str]:
        """See `Files`."""
        self._group(path)
        return [one.rpartition("/")[2] for one in self._groups if one.rpartition("/")[0] == path]

    def given(self, path: str) -> bool:
        """See `Files`."""
        self._group(path)
        return self.given_to_us and path == self.top

    def _group(self, path: str) -> dict[str, str]:
        if path not in self._groups:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._groups[path]

    def _handed_down(self, group: str) -> list[str]:
        above = self._groups.get(group.rpartition("/")[0], {})
        return above.get("cgroup.subtree_control", "").split()

    def _move(self, group: str, pid: int) -> None:
        stat = read_stat(pid)
        if stat is None or stat.gone:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH), str(pid))
        self.inhabited.discard(pid)
        for members in self._members.values():
            members.pop(pid, None)
        self._members[group][pid] = stat.start_time

    def _within(self, group: str) -> list[int]:
        """Members, and what they have started since."""
        found: dict[int, int] = self._members[group]
        stats = {stat.pid: stat for stat in all_stats() if not stat.gone}
        roots: list[Stat] = [
            stat for pid, start in found.items()
            if (stat := stats.get(pid)) is not None and stat.start_time == start
        ]  # fmt: skip
        for stat in with_descendants(roots, stats.values()):
            elsewhere = any(
                stat.pid in members for one, members in self._members.items() if one != group
            )
            if not elsewhere:
                found[stat.pid] = stat.start_time
        alive = [
            pid for pid, start in found.items() if pid in stats and stats[pid].start_time == start
        ]
        if self.inhabited and group == self.top:
            alive += [pid for pid in self.inhabited if pid in stats]
        return alive
