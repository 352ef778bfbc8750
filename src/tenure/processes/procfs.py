"""What the system says about processes. Standard library only: the guard imports this.

Linux is read from /proc. Elsewhere `psutil` answers the same questions (it is imported only there),
except for environments, which count as unreadable.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterable
from typing import NamedTuple

LINUX = sys.platform == "linux"
SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Descriptors or memory are used up: whoever asked was not told that there is nothing."""


class Identity(NamedTuple):
    """One process for ever: a pid alone is reused."""

    pid: int
    start_time: int
    """Clock ticks since boot (elsewhere: milliseconds since the epoch)."""
    boot_id: str


class Stat(NamedTuple):
    """One process as the system sees it now."""

    pid: int
    state: str
    """One letter; Z is a zombie, X is dead."""
    ppid: int
    pgrp: int
    session: int
    start_time: int
    program: int = 0
    """Another after every exec (where its environment lies); 0 where that is hidden."""

    @property
    def gone(self) -> bool:
        """Whether it runs no more, reaped or not."""
        return self.state in "ZX"


def boot_id() -> str:
    """The random id of this boot; empty where there is none."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def read_stat(pid: int) -> Stat | None:
    """The process with that pid now, or None.

    Raises:
        OSError: that cannot be told now; see `SCARCE`.
    """
    if not LINUX:
        return _psutil_stat(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            text = file.read(1024)
    except OSError as exc:
        none_there(exc)
        return None
    # The name in parentheses may itself contain spaces and parentheses.
    fields = text[text.rindex(b")") + 2 :].split()
    state, (ppid, pgrp, session) = fields[0].decode(), map(int, fields[1:4])
    if state == "Z" and int(fields[17]) > 1:
        state = "S"  # its first thread has ended, others run
    program = int(fields[47]) if len(fields) > 47 else 0
    return Stat(pid, state, ppid, pgrp, session, int(fields[19]), program)


def all_stats() -> list[Stat]:
    """Every process that can be seen; 5-10 ms per thousand."""
    if not LINUX:
        return _psutil_stats()
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [stat for pid in pids if (stat := read_stat(pid)) is not None]


def pids_now() -> dict[int, int]:
    """The pids of all processes, each with the number of its entry in /proc; nothing is read.

    Two processes by one pid never have the same number. 0 where there are no such numbers.
    """
    if not LINUX:
        import psutil

        return dict.fromkeys(psutil.pids(), 0)
    with os.scandir("/proc") as entries:
        found = {int(entry.name): entry.inode() for entry in entries if entry.name.isdigit()}
    return found if len(set(found.values())) == len(found) else dict.fromkeys(found, 0)


def pids_below(pid: int) -> list[int]:
    """What descends from one process, each after its parent; read from that family alone.

    Misses what is being born, and the children of who is just ending. Linux only.
    """
    found = [pid]
    for parent in found:  # which grows meanwhile
        try:
            for thread in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{thread}/children", "rb", buffering=0) as file:
                    found += map(int, file.readall().split())
        except OSError:
            continue
    return found[1:]


def identity_of(pid: int, boot: str | None = None) -> Identity | None:
    """The identity of the process with that pid now, or None."""
    stat = read_stat(pid)
    return None if stat is None else Identity(pid, stat.start_time, boot or boot_id())


def is_alive(identity: Identity) -> bool:
    """Whether that very process still runs (a zombie does not)."""
    stat = read_stat(identity.pid)
    return (
        stat is not None
        and not stat.gone
        and stat.start_time == identity.start_time
        and identity.boot_id == boot_id()
    )


def read_label(pid: int, name: str) -> str | None:
    """The value of the variable `name` in the environment that `pid` was started with; "" if unset.

    Returns:
        None when it cannot be read: the process is gone, another user's, or not dumpable.

    Raises:
        OSError: that cannot be told now; see `SCARCE`.
    """
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            environ = file.readall()
    except OSError as exc:
        none_there(exc)
        return None
    prefix = name.encode() + b"="
    for entry in environ.split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode("utf-8", "replace")
    return ""


def is_namespace_init(pid: int) -> bool:
    """Whether `pid` is the first process of a pid namespace below ours."""
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
            status = file.readall()
    except OSError:
        return False
    _, found, rest = status.partition(b"\nNSpid:")
    pids = rest.partition(b"\n")[0].split() if found else []
    return len(pids) > 1 and pids[-1] == b"1"


def with_descendants(roots: Iterable[Stat], stats: Iterable[Stat]) -> list[Stat]:
    """`roots` and everything below them, each once, and each after its parent.

    In that order they are signalled: a shell whose child ends first goes on to its next command.
    """
    children: dict[int, list[Stat]] = {}
    for stat in stats:
        children.setdefault(stat.ppid, []).append(stat)
    found: dict[int, Stat] = {}
    queue = list(roots)
    while queue:
        stat = queue.pop()
        if stat.pid not in found:
            found[stat.pid] = stat
            queue.extend(children.get(stat.pid, ()))

    def depth(stat: Stat) -> int:
        above = 0
        while (parent := found.get(stat.ppid)) is not None and above < len(found):
            stat, above = parent, above + 1
        return above

    return sorted(found.values(), key=depth)


def ancestors(pid: int, stats: Iterable[Stat]) -> set[int]:
    """`pid` and every process above it."""
    parents = {stat.pid: stat.ppid for stat in stats}
    found = {pid}
    while (pid := parents.get(pid, 0)) > 0 and pid not in found:
        found.add(pid)
    return found


def open_pidfd(stat: Stat) -> int | None:
    """A pidfd of exactly that process, owned by the caller; None when it is gone (or off Linux).

    Raises:
        OSError: that cannot be told now; see `SCARCE`.
    """
    try:
        fd = os.pidfd_open(stat.pid)
    except AttributeError:
        return None
    except OSError as exc:
        none_there(exc)
        return None
    try:
        now = read_stat(stat.pid)
    except OSError:
        os.close(fd)
        raise
    if now is None or now.start_time != stat.start_time:
        os.close(fd)  # the pid was reused before it could be pinned
        return None
    return fd


def send_signal(stat: Stat, signum: int) -> bool:
    """Signal exactly that process, never one that has taken over its pid; whether it was there.

    Raises:
        OSError: that cannot be told now; see `SCARCE`.
    """
    if not LINUX:
        now = read_stat(stat.pid)
        if now is None or now.start_time != stat.start_time:
            return False
        try:
            os.kill(stat.pid, signum)
        except OSError:
            return False
        return True
    fd = open_pidfd(stat)
    if fd is None:
        return False
    try:
        signal.pidfd_send_signal(fd, signum)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def none_there(error: OSError) -> None:
    """What an error of a look means: there is no such process, or it hides; else it is raised."""
    if error.errno in SCARCE:
        raise error


def _psutil_stat(pid: int) -> Stat | None:
    import psutil

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            state = "Z" if process.status() == psutil.STATUS_ZOMBIE else "S"
            ppid, created = process.ppid(), int(process.create_time() * 1000)
        return Stat(pid, state, ppid, os.getpgid(pid), os.getsid(pid), created)
    except (psutil.Error, OSError):
        return None


def _psutil_stats() -> list[Stat]:
    import psutil

    return [stat for pid in psutil.pids() if (stat := _psutil_stat(pid)) is not None]
