"""Taking a home from a holder that does not renew its lease.

A holder that is gone keeps nothing: its file lock ended with it, and its lease is taken at once,
because its identity says that it does not run. What is left are holders that live and are silent:
frozen (SIGSTOP, a suspended terminal job, also in the middle of a transaction, where they keep the
database locked), or hung. After their lease has run out they are fenced off in the store where that
is possible, so that a late write of theirs fails, and ended by identity (pid, start time, boot),
never by name, together with their guard and all that is below it.

A holder that is not frozen but late gets the time of one renewal first: a machine that wakes from
sleep finds its lease run out, too.
"""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tenure.config import Home
from tenure.errors import Conflict
from tenure.home import Holder
from tenure.processes.containment import end_all, wait_gone
from tenure.processes.procfs import (
    Stat,
    all_stats,
    ancestors,
    boot_id,
    read_stat,
    send_signal,
    with_descendants,
)

log = logging.getLogger("tenure.gateway")

FENCE_WAIT_S = 1.0
"""How long to wait for a database that the holder may keep locked."""
TERM_S = 5.0
"""How long a holder that is not frozen may take to end by itself once it is fenced off."""
LOOK_S = 0.1
_NOW = "(julianday('now') - 2440587.5) * 86400.0"


class Lease(NamedTuple):
    """The row of the home, with the store's time at which it was read."""

    holder: str
    epoch: int
    renewed_at: float
    expires_at: float
    now: float

    @property
    def over(self) -> bool:
        """Whether it has run out."""
        return bool(self.holder) and self.expires_at <= self.now


def read_lease(database: Path) -> Lease | None:
    """The lease of the home as it stands in the database; None where it cannot be read.

    Readers are not held up by a writer that stands still in its transaction.
    """
    if not database.exists():
        return None
    query = f"SELECT holder, epoch, renewed_at, expires_at, {_NOW} FROM home"  # noqa: S608 - fixed
    try:
        uri = f"{database.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=FENCE_WAIT_S)) as db:
            row = db.execute(query).fetchone()
    except sqlite3.Error:
        return None
    return Lease(*row) if row else None


def check_free(home: Home) -> None:
    """Refuse a home whose holder lives and renews its lease, also where its lock file was removed.

    Raises:
        Conflict: naming the holder.
    """
    lease = read_lease(home.database)
    holder = Holder.read(lease.holder) if lease is not None and not lease.over else None
    if holder is not None and _living(holder.pid, holder.start_time, holder) is not None:
        raise Conflict(
            f"Another gateway (pid {holder.pid}) holds the home {home.root} and renews its lease, "
            f"although {home.lock.name} is free; stop it first."
        )


def silent(home: Home) -> bool:
    """Whether the lease of the home has run out, so that its holder may be succeeded."""
    lease = read_lease(home.database)
    return lease is not None and lease.over


def frozen(home: Home) -> bool:
    """Whether it has run out and its holder is stopped: asking it anything would be in vain."""
    lease = read_lease(home.database)
    holder = Holder.read(lease.holder) if lease is not None and lease.over else None
    stat = _living(holder.pid, holder.start_time, holder) if holder else None
    return stat is not None and _stopped(stat)


def succeed(home: Home) -> bool:
    """Fence off and end the holder of a home whose lease has run out. Blocks; for a thread.

    Returns:
        Whether the holder is gone now. False: it renews its lease, or is none of ours to end.
    """
    lease = read_lease(home.database)
    holder = Holder.read(lease.holder) if lease is not None and lease.over else None
    if lease is None or holder is None:
        return False
    stat = _living(holder.pid, holder.start_time, holder)
    if stat is None:
        return True
    if stat.pid in ancestors(os.getpid(), all_stats()):
        return False  # we run below it
    if not _stopped(stat) and not _stays_silent(home, lease):
        return False
    log.warning("The holder of %s (pid %s) is silent; it is succeeded", home.root, stat.pid)
    fenced = _fence_off(home.database, lease)
    if not _stopped(stat):
        send_signal(stat, signal.SIGTERM)
        wait_gone([stat], TERM_S)
    left = _end(holder)
    log.warning("It was %s and ended", "fenced off" if fenced else "holding the database")
    return not left


def _stopped(stat: Stat) -> bool:
    now = read_stat(stat.pid)
    return now is not None and now.start_time == stat.start_time and now.state in "Tt"


def _living(pid: int, start_time: int, holder: Holder) -> Stat | None:
    stat = read_stat(pid) if pid and holder.boot_id == boot_id() else None
    return stat if stat and not stat.gone and stat.start_time == start_time else None


def _stays_silent(home: Home, lease: Lease) -> bool:
    """Whether the lease is not renewed in the time in which it is due again."""
    give_up = time.monotonic() + (lease.expires_at - lease.renewed_at) / 2
    while time.monotonic() < give_up:
        time.sleep(LOOK_S)
        now = read_lease(home.database)
        if now is not None and not now.over:
            return False
    return True


def _fence_off(database: Path, lease: Lease) -> bool:
    """Raise the epoch, so that the holder can write nothing more; False if it keeps the lock."""
    change = "UPDATE home SET epoch = epoch + 1, holder = '' WHERE epoch = ? AND expires_at <= "
    try:
        with closing(sqlite3.connect(database, timeout=FENCE_WAIT_S)) as db, db:
            return db.execute(change + _NOW, (lease.epoch,)).rowcount == 1
    except sqlite3.Error:
        return False


def _end(holder: Holder) -> list[Stat]:
    """End the gateway, its guard and all that is below them; what survived."""
    known: set[tuple[int, int]] = set()

    def find() -> list[Stat]:
        stats = all_stats()
        spared = ancestors(os.getpid(), stats)
        roots = [
            _living(holder.guard_pid, holder.guard_start, holder),
            _living(holder.pid, holder.start_time, holder),
        ]
        for stat in with_descendants([root for root in roots if root], stats):
            known.add((stat.pid, stat.start_time))
        return [
            stat
            for stat in stats
            if (stat.pid, stat.start_time) in known and not stat.gone and stat.pid not in spared
        ]

    return end_all(find, [])
