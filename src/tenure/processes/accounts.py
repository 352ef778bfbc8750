"""What runs, compared with what is held: how much each owner uses, and what nobody owns.

Everything here blocks (it reads /proc) and is called in a thread; nothing is ended here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from tenure.processes.brand import COUNT_BITS, number_in, read_number
from tenure.processes.containment import LABEL
from tenure.processes.procfs import Stat, all_stats, read_label
from tenure.processes.roll import Root

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


class Held(NamedTuple):
    """A tree that is held: its number, its owner, and its first process once that runs."""

    number: int
    owner: str
    root: Root | None


class Account(NamedTuple):
    """What one owner's processes use."""

    processes: int = 0
    fds: int = 0
    """Open descriptors; those of processes that hide them are not counted."""
    rss_bytes: int = 0
    """Resident bytes; what processes share counts for each."""
    cpu_s: float = 0.0
    """Of those that run, since their start."""


class Look(NamedTuple):
    """What was seen at one moment."""

    accounts: dict[str, Account]
    """By owner."""
    trees: dict[int, Account]
    """By number of the tree."""
    strays: tuple[Stat, ...]
    """Processes with our marks that belong to no tree which is held."""
    owned: Mapping[int, int] = MappingProxyType({})
    """The number of its tree, by pid."""


def look(held: Iterable[Held], mark: str) -> Look:
    """Count what runs of each tree, and find what nobody holds. Blocks.

    Args:
        held: every tree, those that are being started included; taken before the call.
        mark: of whoever started them; see `Spawner.mark`.
    """
    everything = all_stats()
    me = next(stat for stat in everything if stat.pid == os.getpid())
    stats = [stat for stat in everything if not stat.gone and stat.start_time >= me.start_time]
    trees = {one.number: one for one in held}
    owned = _by_descent(trees.values(), stats)
    strays = []
    for stat in stats:
        if stat.pid in owned or stat.pid == me.pid:
            continue
        number = _number_of(stat, mark)
        if number in trees:
            owned[stat.pid] = number
        elif number:
            strays.append(stat)
    by_tree = {number: Account() for number in trees}
    for pid, number in owned.items():
        by_tree[number] = _add(by_tree[number], _use_of(pid))
    by_owner: dict[str, Account] = {}
    for number, account in by_tree.items():
        owner = trees[number].owner
        by_owner[owner] = _add(by_owner.get(owner, Account()), account)
    return Look(by_owner, by_tree, tuple(strays), owned)


def _number_of(stat: Stat, mark: str) -> int:
    """The tree that its label, or without one its number, says it is of; 0: none of ours."""
    label = read_label(stat.pid, LABEL)
    if label:
        return number_in(label, mark)
    number = read_number(stat.pid)
    return number if number >> COUNT_BITS == int(mark, 16) else 0


def _by_descent(trees: Iterable[Held], stats: list[Stat]) -> dict[int, int]:
    """The tree's number of each process that descends from a first process, or is in its group."""
    starts = {stat.pid: stat.start_time for stat in stats}
    roots = {
        root.pid: (one.number, root.start_time)
        for one in trees
        # Another process by that pid: the first one's session and group are empty.
        if (root := one.root) and starts.get(root.pid, root.start_time) == root.start_time
    }
    children: dict[int, list[Stat]] = {}
    for stat in stats:
        children.setdefault(stat.ppid, []).append(stat)
    found: dict[int, int] = {}
    queue: list[tuple[Stat, int]] = []
    for stat in stats:
        for lead in (stat.pid, stat.session, stat.pgrp):
            number, start = roots.get(lead, (0, 0))
            if number and stat.start_time >= start:
                queue.append((stat, number))
                break
    while queue:
        stat, number = queue.pop()
        if stat.pid not in found:
            found[stat.pid] = number
            queue += [(child, number) for child in children.get(stat.pid, ())]
    return found


def _use_of(pid: int) -> Account:
    """What one process uses; nothing where it has gone meanwhile."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123 - not a path
            rss = int(file.read().split()[1]) * PAGE
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
        cpu_s = (int(fields[11]) + int(fields[12])) / TICKS
    except (OSError, ValueError, IndexError):
        return Account()
    try:
        fds = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208
    except OSError:
        fds = 0
    return Account(1, fds, rss, cpu_s)


def written_bytes(pids: Iterable[int]) -> int:
    """What processes and their children that have ended have written to disks. Blocks."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/io", "rb") as file:  # noqa: PTH123 - not a path
                total += int(file.read().partition(b"\nwrite_bytes: ")[2].split()[0])
        except (OSError, ValueError, IndexError):
            continue
    return total


def _add(one: Account, two: Account) -> Account:
    return Account(
        one.processes + two.processes,
        one.fds + two.fds,
        one.rss_bytes + two.rss_bytes,
        one.cpu_s + two.cpu_s,
    )
