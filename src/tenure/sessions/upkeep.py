"""What a profile leaves on disk has an age and a size, and what a dead gateway was writing goes.

Each kind of file, its owner and its limits (the table stands in docs/operations.md):

    checkpoints/   the session          days, bytes, number a session     `Checkpoints.sweep`
    spill/         the session          days, bytes                       here
    backups/       the store            days, number; the newest stays    here
    *.part         whoever writes it    an hour                           here
    events (rows)  the session          days since it was closed          `PruneEvents`
    sessions       the person           days, if wished                   `PruneSessions`
    uploads/       history and drafts   as long as any of them refers to it   `Uploads.sweep`
    empty sessions nobody               a day: nothing was ever said      the same

Logs rotate by themselves (`logs`), saved states of the starter too (`models/starter`).
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tenure.config import Home
from tenure.errors import TenureError
from tenure.ids import SESSION_ID
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import run_in_thread
from tenure.sessions.belongings import forget_files
from tenure.sessions.resources import SessionPorts
from tenure.settings import RetentionConfig
from tenure.store.base import EndIdle, PruneEvents, PruneSessions

log = logging.getLogger("tenure.upkeep")

FIRST_S = 2.0
"""After the start; the sessions of people come first."""
EVERY_S = 3_600.0
PART_S = 3_600.0
"""Nobody writes one file for an hour."""
SESSIONS_AT_ONCE = 100
"""Of one write: the store stays free for others in between."""
PAUSE_S = 0.1
EMPTY_S = 86_400.0
"""A client may still hold the id of a session in which nothing was said."""
IDLE_MAX = 10_000
"""Unloaded sessions that one round ends; the next one goes on."""


class Tidied(msgspec.Struct):
    """What one round removed."""

    checkpoints: int = 0
    files: int = 0
    bytes: int = 0
    events_of: int = 0
    sessions: int = 0
    cut_restores: int = 0
    uploads: int = 0


class Upkeep:
    """Looks after the files and rows of one profile, now and then, in a task of its scope.

    Args:
        scope: the profile's.
        home: the profile's.
        ports: the profile's.
    """

    def __init__(self, scope: Scope, home: Home, ports: SessionPorts) -> None:
        self._scope = scope
        self._home = home
        self._ports = ports

    def begin(self) -> None:
        """From now on, until the scope ends."""
        self._scope.spawn(self._forever(), name="upkeep")

    async def _forever(self) -> None:
        await self._ports.clock.sleep(FIRST_S)
        while True:
            try:
                tidied = await self.once()
            except TenureError as exc:
                log.warning("Upkeep of %s failed: %s", self._home.root, exc)
            except OSError as exc:
                log.warning("Upkeep of %s failed: %s", self._home.root, exc.strerror)
            else:
                if tidied != Tidied():
                    log.info("Upkeep of %s removed %s", self._home.root, tidied)
            await self._ports.clock.sleep(EVERY_S)

    async def once(self) -> Tidied:
        """One round; what it removed.

        Raises:
            StoreError: the store or the folder of checkpoints failed; the next round tries again.
        """
        limits, now_s = self._ports.config().retention, self._ports.clock.wall()
        tidied = Tidied()
        await self._prune_rows(limits, now_s, tidied)
        spilled = await run_in_thread(self._scope, _sessions_in, self._home.spill)
        gone = set(spilled) - await self._existing(spilled)
        await run_in_thread(self._scope, _tidy_files, self._home, limits, now_s, gone, tidied)
        if self._ports.uploads is not None:
            tidied.uploads = await self._ports.uploads.sweep(self._ports.store, self._scope)
        if self._ports.checkpoints is not None:
            swept = await self._ports.checkpoints.sweep(self._scope, self._existing)
            tidied.checkpoints += swept.checkpoints
            tidied.files += swept.contents
            tidied.bytes += swept.bytes
            tidied.cut_restores = swept.cut_restores
        return tidied

    async def _existing(self, session_ids: list[str]) -> set[str]:
        store = self._ports.store
        return {name for name in session_ids if await store.session(name) is not None}

    async def _prune_rows(self, limits: RetentionConfig, now_s: float, tidied: Tidied) -> None:
        store, clock = self._ports.store, self._ports.clock
        await self._prune_sessions(now_s - EMPTY_S, tidied, empty=True)
        if limits.session_days > 0:
            before = now_s - limits.session_days * 86_400
            await self._end_idle(before, now_s)
            await self._prune_sessions(before, tidied, empty=False)
        while True:
            before = now_s - limits.events_days * 86_400
            (pruned,) = await store.write(PruneEvents(before, SESSIONS_AT_ONCE))
            tidied.events_of += pruned
            if pruned < SESSIONS_AT_ONCE:
                break
            await clock.sleep(PAUSE_S)

    async def _end_idle(self, before: float, now_s: float) -> None:
        """End what was unloaded and not used since `before`: an end comes before a removal.

        A hook that is to be told of it keeps the session until it has been; see `hooks.py`.
        """
        store, hook = self._ports.store, bool(self._ports.config().hooks.session_end)
        for row in await store.sessions(limit=IDLE_MAX, status="idle"):
            if row.updated_at < before and not row.pinned:
                await store.write(EndIdle(row.id, "unused", now_s, hook=hook))

    async def _prune_sessions(self, before: float, tidied: Tidied, *, empty: bool) -> None:
        while True:
            op = PruneSessions(before, SESSIONS_AT_ONCE, empty)
            (gone,) = await self._ports.store.write(op)
            for session_id in gone:
                await run_in_thread(self._scope, forget_files, self._home, session_id)
            tidied.sessions += len(gone)
            if len(gone) < SESSIONS_AT_ONCE:
                break
            await self._ports.clock.sleep(PAUSE_S)


def _sessions_in(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir() if SESSION_ID.fullmatch(path.name)]
    except FileNotFoundError:
        return []


def _tidy_files(
    home: Home, limits: RetentionConfig, now_s: float, gone: Iterable[str], tidied: Tidied
) -> None:
    for session_id in gone:
        for path in _files_in(home.spill / session_id):
            _remove(path, tidied)
        shutil.rmtree(home.spill / session_id, ignore_errors=True)
    _keep_newest(
        _files_in(home.spill), now_s, limits.spill_days, tidied, bytes_max=limits.spill_bytes_max
    )
    for folder in _folders_in(home.spill):
        _remove_if_empty(folder)
    backups = [path for path in _files_in(home.backups) if ".part" not in path.name]
    newest = max(backups, key=_changed_at, default=None)
    older = [path for path in backups if path != newest]
    _keep_newest(older, now_s, limits.backup_days, tidied, count_max=limits.backups_max - 1)
    for path in [*home.root.glob("*.part"), *home.backups.glob("*.part*")]:
        if now_s - _changed_at(path) > PART_S:
            _remove(path, tidied)


def _keep_newest(
    paths: list[Path],
    now_s: float,
    days: float,
    tidied: Tidied,
    *,
    bytes_max: int | None = None,
    count_max: int | None = None,
) -> None:
    """Remove what is older than `days`, and the oldest of what is over a limit."""
    total = count = 0
    for path in sorted(paths, key=_changed_at, reverse=True):
        size = _size(path)
        total, count = total + size, count + 1
        old = now_s - _changed_at(path) > days * 86_400
        over = (bytes_max is not None and total > bytes_max) or (
            count_max is not None and count > count_max
        )
        if old or over:
            _remove(path, tidied)
            total -= size


def _files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() or path.is_symlink()]


def _folders_in(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if path.is_dir() and not path.is_symlink()]


def _changed_at(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _remove(path: Path, tidied: Tidied) -> None:
    size = _size(path)
    try:
        path.unlink()
    except OSError:
        return  # gone meanwhile, or not ours to remove; the next round sees it again
    tidied.files += 1
    tidied.bytes += size


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return
