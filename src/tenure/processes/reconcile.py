"""The sweep at start: ends what an earlier run of this home has left behind.

There is something left only if that run was killed together with its guard. It is known by the
label in its environment, whose first part is the instance that started it, or, where a cleared
environment has lost that, by its brand (brand.py), and ended by identity, never by name. An
instance that still lives keeps its children. What cannot be read (another user's, not dumpable) is
counted: a label attributes, it does not contain.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import NamedTuple

from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import run_in_thread
from tenure.processes import cgroups
from tenure.processes.brand import read_brand
from tenure.processes.containment import LABEL, end_all
from tenure.processes.procfs import Stat, all_stats, ancestors, read_label, with_descendants

TERM_S = 0.25
"""How long a leftover may take to end by SIGTERM."""

IsDead = Callable[[str], bool]
"""Whether this instance belongs to our home and is dead. Called in a thread."""


class SweepReport(NamedTuple):
    """What a sweep did."""

    ended: tuple[int, ...]
    """Pids of what was ended."""
    survived: tuple[int, ...]
    """Pids of what SIGKILL did not end in time."""
    unreadable: int
    """How many processes of this user hid their environment."""
    groups: int = 0
    """How many control groups of dead instances were removed."""


async def reconcile(scope: Scope, is_dead: IsDead) -> SweepReport:
    """Sweep, off the loop (reading 500 environments takes 20 ms). See `sweep`.

    What the dead have left of control groups is ended and removed after it, by their names.
    """
    return await run_in_thread(scope, _sweep_all, is_dead)


def _sweep_all(is_dead: IsDead) -> SweepReport:
    report, place = sweep(is_dead), cgroups.look_for_place().path
    return report._replace(groups=cgroups.sweep(place, is_dead) if place else 0)


def sweep(is_dead: IsDead) -> SweepReport:
    """End everything that carries the label of a dead instance, with all that is below it.

    Blocks. Never touches this process or one above it, whatever their labels say.

    Args:
        is_dead: tells a dead earlier instance of this home from a live one, and from other homes'.
    """
    ended: set[int] = set()
    unreadable = 0
    verdicts: dict[str, bool] = {}

    def dead(label: str) -> bool:
        instance = label.partition("/")[0]
        if not instance:
            return False
        if instance not in verdicts:
            verdicts[instance] = is_dead(instance)
        return verdicts[instance]

    def find() -> list[Stat]:
        nonlocal unreadable
        stats = all_stats()
        spared = ancestors(os.getpid(), stats)
        unreadable = 0
        roots = []
        for stat in stats:
            if stat.pid in spared or stat.ppid == 2:  # 2: the kernel's own threads
                continue
            label = read_label(stat.pid, LABEL)
            if label is None:
                unreadable += _is_ours(stat.pid)
            if dead(label or read_brand(stat.pid)):
                roots.append(stat)
        found = [
            stat
            for stat in with_descendants(roots, stats)
            if not stat.gone and not _is_live(stat, dead)
        ]
        ended.update(stat.pid for stat in found)
        return found

    survived = tuple(stat.pid for stat in end_all(find, [(signal.SIGTERM, TERM_S)]))
    return SweepReport(tuple(sorted(ended.difference(survived))), survived, unreadable)


def _is_live(stat: Stat, dead: Callable[[str], bool]) -> bool:
    """Whether a label says that this descendant belongs to somebody who lives."""
    label = read_label(stat.pid, LABEL) or read_brand(stat.pid)
    return bool(label) and not dead(label)


def _is_ours(pid: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.getuid()  # noqa: PTH116 - a number, not a path
    except OSError:
        return False
