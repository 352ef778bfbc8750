"""The roll: what runs, and which of our trees it is of, kept from look to look.

A process is of a tree if its parent is, if it is in the session or the group of the tree's first
process (every child of ours leads its own), or if it carries the tree's mark: the label in its
environment, or, where that was cleared, its number (brand.py). All but the mark is settled when a
process is born: nobody can join another's session, and orphans lose a parent, they never gain one
of ours. So what was seen once, and was of a tree, is of it until it ends, whatever it does to hide;
and a look reads only what is new, and those who are of no tree and may still put on a mark.

What is new is told by the numbers of the entries of /proc: another process by the same pid has
another number. The same process gets another one where the kernel was short of memory; it is read
again then, and keeps its trees. With a thousand trees a look takes a few milliseconds, where
reading all of them takes a hundred. Whoever asks during a look shares the next one. Everything here
blocks; on the loop it is called in a thread.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Mapping
from typing import NamedTuple

from tenure.processes.brand import COUNT_BITS, number_in, read_number
from tenure.processes.containment import LABEL
from tenure.processes.procfs import (
    Stat,
    pids_now,
    read_label,
    read_stat,
    with_descendants,
)

KERNEL_THREADS = 2
"""The parent of the kernel's own threads."""
NONE: frozenset[int] = frozenset()


class Root(NamedTuple):
    """The first process of a tree, and the marks that all of it started with."""

    pid: int
    start_time: int
    label: str
    number: int
    """See `brand.numbered`; it names the tree."""


class _Known(NamedTuple):
    """A process that has been read."""

    entry: int
    """The number of its entry in /proc."""
    start_time: int
    trees: frozenset[int]
    """The numbers of the trees that it is of."""


class Roll:
    """What runs of the trees of one gateway.

    Args:
        mark: of whoever starts them; see `Spawner.mark`.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._lock = threading.Lock()
        self._tickets = itertools.count(1)
        self._begun = 0
        """The ticket that the last look has taken when it began."""
        self._leaders: dict[int, Root] = {}
        """The first process of each tree that is held, by pid."""
        self._known: dict[int, _Known] = {}
        self._settled: dict[int, int] = {}
        """The entries of those whose trees can change no more, by pid."""
        self._marks: dict[tuple[int, int, int], int] = {}
        """The tree that the marks of the others say, by pid, start and program."""

    def lead(self, root: Root) -> None:
        """The first process of a tree runs: what is in its session is of that tree."""
        self._leaders[root.pid] = root

    def forget(self, root: Root) -> None:
        """The tree has ended; the pid may be another's from now on."""
        if self._leaders.get(root.pid) == root:
            del self._leaders[root.pid]

    def members(self, root: Root) -> list[Stat]:
        """What runs of the tree now (zombies excluded), each after its parent.

        Seen by a look that began after this call; never our own process or its parent. What ends
        during a look may have forked before: nothing is there only when a look finds none but
        those who had ended before it began.
        """
        ended: set[tuple[int, int]] = set()
        while True:
            starts = self._on_the_roll(root.number)
            stats = [stat for pid in starts if (stat := read_stat(pid)) is not None]
            runs = [stat for stat in stats if not stat.gone and stat.start_time == starts[stat.pid]]
            if runs or ended.issuperset(starts.items()):
                return with_descendants(runs, runs)
            ended.update(starts.items())

    def _on_the_roll(self, number: int) -> dict[int, int]:
        """The pids of a tree in a look that begins now or later, each with its start."""
        asked = next(self._tickets)
        with self._lock:
            if self._begun < asked:
                begun = next(self._tickets)
                self._look()
                self._begun = begun  # one that failed is none
            return {pid: one.start_time for pid, one in self._known.items() if number in one.trees}

    # --- a look ---------------------------------------------------------------------------------

    def _look(self) -> None:
        """Read what is new, and what is settled not yet."""
        entries = pids_now()
        new = dict(entries.items() - self._settled.items())
        stats = {pid: stat for pid in new if (stat := read_stat(pid)) is not None}
        before = {pid: self._known[pid] for pid in self._known.keys() & new.keys()}
        for pid in self._known.keys() - entries.keys() | before.keys():
            del self._known[pid]
            self._settled.pop(pid, None)
        try:
            self._find_trees(stats, new, before)
        except OSError:  # a label could not be read: who was known still is
            self._known = before | self._known
            raise
        programs = {(stat.pid, stat.start_time, stat.program) for stat in stats.values()}
        for key in self._marks.keys() - programs:
            del self._marks[key]
        self._settle(stats, new)

    def _find_trees(
        self,
        stats: Mapping[int, Stat],
        entries: Mapping[int, int],
        before: Mapping[int, _Known],
    ) -> None:
        """Put those that were read on the roll, parents first; who was there keeps its trees."""
        ours = {os.getpid(), os.getppid()}
        for stat in stats.values():
            line = [stat]
            while (above := stats.get(line[-1].ppid)) is not None and above not in line:
                if above.pid in self._known:
                    break
                line.append(above)
            for one in reversed(line):
                if one.pid in self._known:
                    continue
                trees = NONE if one.pid in ours else self._trees_of(one, stats)
                was = before.get(one.pid)
                if was is not None and was.start_time == one.start_time:
                    trees |= was.trees
                self._known[one.pid] = _Known(entries[one.pid], one.start_time, trees)

    def _trees_of(self, stat: Stat, stats: Mapping[int, Stat]) -> frozenset[int]:
        parent = self._known.get(stat.ppid)
        trees = parent.trees if parent else NONE
        kin = {self._led_by(at, stat, stats) for at in (stat.pid, stat.session, stat.pgrp)} - {0}
        # With a thousand trees, reading labels would be most of the work.
        return trees | kin if kin else trees | {self._marked(stat)} - {0}

    def _led_by(self, leader: int, stat: Stat, stats: Mapping[int, Stat]) -> int:
        """The tree whose first process is, or was, the one that leads a session or a group; or 0.

        The id of a session stays taken while it has members: another process by that pid means
        that there are none left.
        """
        root = self._leaders.get(leader)
        if root is None or stat.start_time < root.start_time:
            return 0
        now = stats.get(leader) or self._known.get(leader)
        return root.number if now is None or now.start_time == root.start_time else 0

    def _marked(self, stat: Stat) -> int:
        """The tree that its label, or without one its number, says it is of; 0: none of ours.

        Read once for each program that it runs.
        """
        key = (stat.pid, stat.start_time, stat.program)
        if stat.program and key in self._marks:
            return self._marks[key]
        label = read_label(stat.pid, LABEL)
        if label:
            number = number_in(label, self._mark)
        else:
            number = read_number(stat.pid)
            number = number if number >> COUNT_BITS == int(self._mark, 16) else 0
        self._marks[key] = number
        return number

    def _settle(self, stats: Mapping[int, Stat], entries: Mapping[int, int]) -> None:
        """Those that need not be read again: of a tree, older than we are, or the kernel's."""
        me = os.getpid()
        began = self._known[me].start_time if me in self._known else 0
        for pid, stat in stats.items():
            known = self._known[pid]
            foreign = pid == me or stat.start_time < began or stat.ppid == KERNEL_THREADS
            if entries[pid] and (known.trees or foreign):
                self._settled[pid] = entries[pid]
