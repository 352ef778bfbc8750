"""The checkpoints of a home: take, list, compare, give back, forget. Never on the loop.

Whatever works on the folder is a build of the scope it is asked in: a caller that goes away stops
the waiting; the thread is told to end, or (a restore) runs to its end. Giving back and sweeping are
alone in the folder; everything else may run side by side.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from tenure.checkpoints.blobs import Blobs, Stop, Stopped, told
from tenure.checkpoints.difference import Difference, describe
from tenure.checkpoints.manifest import (
    Change,
    Entries,
    below,
    changes,
    pack,
    parents,
    shown,
    unpack,
)
from tenure.checkpoints.records import LABEL_CHARS, Checkpoint, Records, Restoring, find
from tenure.checkpoints.restore import Outcome, Restorer, sweep_parts
from tenure.checkpoints.scan import Scanner, own_folders
from tenure.checkpoints.turnstile import Turnstile
from tenure.checkpoints.walk import open_real, opened, split
from tenure.clock import Clock
from tenure.errors import Conflict, NotFound, StoreError
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import call_in_thread
from tenure.settings import CheckpointsConfig

T = TypeVar("T")
RECENT_MAX = 256
Existing = Callable[[list[str]], Awaitable[set[str]]]
"""Which of these sessions are stored."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint is taken of, and for whom."""

    session_id: str
    turn_id: str
    root: str
    label: str
    kind: Literal["turn", "restore"] = "turn"
    of: str = ""


class Restored(msgspec.Struct, frozen=True):
    """What a restore did; `undo` is the checkpoint that was taken before it."""

    checkpoint: Checkpoint
    undo: Checkpoint
    outcome: Outcome


class Swept(msgspec.Struct):
    """What a sweep removed."""

    checkpoints: int = 0
    contents: int = 0
    bytes: int = 0
    cut_restores: int = 0


class Checkpoints:
    """The checkpoints below one folder. Owns nothing: each piece of work is its scope's.

    Args:
        folder: where they are kept; made on first use.
        clock: time.
        config: the limits as they are now.
        never: folders that are never covered, besides `folder`: the home.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        config: Callable[[], CheckpointsConfig],
        never: tuple[Path, ...] = (),
    ) -> None:
        self._clock = clock
        self._config = config
        self._never = (folder, *never)
        self._blobs = Blobs(folder)
        self._records = Records(folder)
        self._turnstile = Turnstile()
        self._recent: dict[str, str] = {}
        """The last manifest of a folder, for the first look of its next session."""

    @property
    def enabled(self) -> bool:
        """Whether turns are saved."""
        return self._config().enabled

    # --- work ---------------------------------------------------------------------------------

    async def take(self, scope: Scope, asked: Asked) -> Checkpoint | None:
        """Save what the folder holds; None where checkpoints are off.

        Cancellation: the thread ends at its next step; what it has kept is swept later.

        Raises:
            ScopeClosed: `scope` is closed. StoreFull: too little space. StoreError: it failed.
        """
        config = self._config()
        if not config.enabled:
            return None
        stop = Stop()
        work = _Taking(self._blobs, self._records, config, self._clock.wall(), stop)
        own, recent = self._never, self._recent.get(asked.root, "")
        taken = await self._run(scope, lambda: work.take(asked, own, recent=recent), stop=stop)
        self._recent.pop(asked.root, None)
        self._recent[asked.root] = taken.manifest
        while len(self._recent) > RECENT_MAX:
            del self._recent[next(iter(self._recent))]
        return taken

    async def of_session(self, scope: Scope, session_id: str) -> list[Checkpoint]:
        """A session's checkpoints, oldest first."""
        return await self._run(scope, lambda: self._records.of_session(session_id))

    async def diff(self, scope: Scope, session_id: str, ref: str, path: str) -> Difference:
        """What has changed since a checkpoint (`find` says how it is named).

        Raises:
            NotFound: no such checkpoint, or its folder is gone. BadValue: `path` leads elsewhere.
        """
        stop = Stop()
        config, own = self._config(), self._never

        def compare() -> Difference:
            record = find(self._records.of_session(session_id), ref)
            then = self._entries(record)
            within = below(record.root, path)
            root_fd = _open_root(record, make=False)
            try:
                now_ns = self._blobs.prepare()
                scanner = Scanner(config, None, then, own_folders(own), stop)
                now = scanner.run(root_fd, now_ns).entries
                return describe(root_fd, self._blobs, changes(then, now, within))
            finally:
                os.close(root_fd)

        return await self._run(scope, compare, stop=stop)

    async def restore(
        self, scope: Scope, session_id: str, ref: str, path: str = "", *, remove_new: bool = False
    ) -> Restored:
        """Give the folder back what it held; taken down first, so that it can be undone.

        Cancellation: stops the waiting, never the restore.

        Args:
            scope: owns the work; must outlive whoever asks.
            session_id: whose checkpoint.
            ref: which one (`find`).
            path: one file or folder only; empty: everything.
            remove_new: also remove what was made since. What a restore made is always removed when
                that restore is undone.

        Raises:
            NotFound, BadValue: as for `diff`. Conflict: the folder is another one by now.
            StoreError: the folder could not be saved first; nothing was changed.
        """
        config, now_s, own = self._config(), self._clock.wall(), self._never

        def give_back() -> Restored:
            records = self._records.of_session(session_id)
            record = find(records, ref)
            within = below(record.root, path)
            then = self._entries(record)
            root_fd = _open_root(record, make=True)
            try:
                _check_known(root_fd, then, record, within)
            finally:
                os.close(root_fd)
            taking = _Taking(self._blobs, self._records, config, now_s, Stop())
            asked = Asked(
                session_id=session_id, turn_id="", root=record.root, kind="restore", of=record.id,
                label=f"before restoring {record.id}",
            )  # fmt: skip
            undo = taking.take(asked, own, keep=record)
            todo = changes(then, self._entries(undo), within)
            removable = self._removable(records, record, todo, remove_new=remove_new)
            outcome = self._apply(record, undo, todo, removable)
            return Restored(record, undo, outcome)

        return await self._run(scope, give_back, alone=True)

    def _removable(
        self,
        records: list[Checkpoint],
        record: Checkpoint,
        todo: list[Change],
        *,
        remove_new: bool,
    ) -> frozenset[bytes]:
        new = frozenset(change.path for change in todo if change.then is None)
        if remove_new or record.kind != "restore":
            return new if remove_new else frozenset()
        undone = next((r for r in records if r.id == record.of), None)
        return new & self._entries(undone).keys() if undone else frozenset()

    def _apply(
        self,
        record: Checkpoint,
        undo: Checkpoint,
        todo: list[Change],
        removable: frozenset[bytes],
    ) -> Outcome:
        part = f".tenure-restore-{undo.id}"
        note = Restoring(
            real=record.real, part=part, manifest=record.manifest, checkpoint=record.id
        )
        self._records.begin_restore(undo.id, note)
        root_fd = _open_root(record, make=False)
        try:
            return Restorer(root_fd, self._blobs, part.encode(), removable).run(todo)
        finally:
            os.close(root_fd)
            self._records.end_restore(undo.id)

    def _entries(self, record: Checkpoint) -> Entries:
        return unpack(self._blobs.content(bytes.fromhex(record.manifest)))

    # --- tidying ------------------------------------------------------------------------------

    async def forget(self, scope: Scope, session_id: str) -> bool:
        """Forget a session's checkpoints; whether there were any."""
        return await self._run(scope, lambda: self._records.forget(session_id))

    async def sweep(self, scope: Scope, existing: Existing) -> Swept:
        """Forget what is too old, too much, or of a session that is gone; then what nobody needs.

        It is alone in the folder, so what is half written, and a restore that has not ended, are
        a dead gateway's.

        Args:
            scope: owns the work.
            existing: which sessions are stored.
        """
        named = await self._run(scope, self._records.sessions)
        gone = set(named) - await existing(named) if named else set()
        config, now_s = self._config(), self._clock.wall()
        return await self._run(scope, lambda: self._sweep(config, now_s, gone), alone=True)

    def _sweep(self, config: CheckpointsConfig, now_s: float, gone: Iterable[str]) -> Swept:
        swept = Swept(bytes=self._blobs.empty_tmp(), cut_restores=self._tidy_cut_restores())
        for session_id in gone:
            swept.checkpoints += len(self._records.of_session(session_id))
            self._records.forget(session_id)
        sizes = self._blobs.sizes()
        kept: set[bytes] = set()
        kept_bytes = 0
        too_many: list[Checkpoint] = []
        for record in reversed(self._records.all()):
            needed = self._needed(record) - kept
            size = sum(sizes.get(digest, 0) for digest in needed)
            old = now_s - record.created_at > config.keep_days * 86_400
            if old or kept_bytes + size > config.store_bytes_max:
                too_many.append(record)
                continue
            kept |= needed
            kept_bytes += size
        self._records.remove(too_many)
        swept.checkpoints += len(too_many)
        for digest in sizes.keys() - kept:
            self._blobs.remove(digest)
            swept.contents += 1
            swept.bytes += sizes[digest]
        return swept

    def _needed(self, record: Checkpoint) -> set[bytes]:
        """The digests that a checkpoint refers to."""
        manifest = bytes.fromhex(record.manifest)
        try:
            entries = self._entries(record).values()
        except StoreError:
            return {manifest}
        return {manifest, *(entry.blob for entry in entries if entry.kind == "f")}

    def _tidy_cut_restores(self) -> int:
        """Remove what restores that were cut left in people's folders."""
        cut = self._records.cut_restores()
        for checkpoint_id, note in cut.items():
            try:
                entries = unpack(self._blobs.content(bytes.fromhex(note.manifest)))
                root_fd = open_real(note.real)
            except (StoreError, OSError):
                self._records.end_restore(checkpoint_id)
                continue
            try:
                folders = {b"", *(parent for path in entries for parent in parents(path))}
                sweep_parts(root_fd, iter(folders), note.part.encode())
            finally:
                os.close(root_fd)
            self._records.end_restore(checkpoint_id)
        return len(cut)

    # --- threads ------------------------------------------------------------------------------

    async def _run(
        self,
        scope: Scope,
        fn: Callable[[], T],
        *,
        alone: bool = False,
        stop: Stop | None = None,
    ) -> T:
        result: list[T] = []

        async def start() -> None:
            # Not cancelled with the caller, so the turnstile is left when the thread has ended.
            async with self._turnstile.alone() if alone else self._turnstile.together():
                if stop is None or not stop.asked:
                    with contextlib.suppress(Stopped):  # whoever asked is gone
                        result.append(await call_in_thread(fn))

        lease = scope.reserve("thread", start, _nothing, label="checkpoint")
        try:
            await lease.arrived()
        except asyncio.CancelledError:
            if stop is not None:
                stop.asked = True
            raise
        finally:
            lease.abandon()
        return result[0]


class _Taking:
    """Taking one checkpoint. In a thread."""

    def __init__(
        self, blobs: Blobs, records: Records, config: CheckpointsConfig, now_s: float, stop: Stop
    ) -> None:
        self._blobs = blobs
        self._records = records
        self._config = config
        self._now_s = now_s
        self._stop = stop

    def take(
        self,
        asked: Asked,
        own: tuple[Path, ...],
        *,
        keep: Checkpoint | None = None,
        recent: str = "",
    ) -> Checkpoint:
        """Save the folder and store the record.

        Args:
            asked: what, for whom.
            own: folders that are never covered.
            keep: a record that is not dropped to make room for this one.
            recent: the manifest of a look at this folder, by digest, if one is known.
        """
        began_s = time.monotonic()
        earlier = self._records.of_session(asked.session_id)
        now_ns = self._blobs.prepare()
        self._blobs.check_room()
        real, root_fd = _open_given(asked.root)
        try:
            mode = os.fstat(root_fd).st_mode & 0o7777
            before = self._before(earlier, real, recent)
            scanner = Scanner(self._config, self._blobs, before, own_folders(own), self._stop)
            scan = scanner.run(root_fd, now_ns)
        finally:
            os.close(root_fd)
        self._stop.check()
        manifest, added = self._blobs.keep(pack(scan.entries.values()))
        record = Checkpoint(
            id=secrets.token_hex(6), session_id=asked.session_id, turn_id=asked.turn_id,
            ordinal=max((r.ordinal for r in earlier), default=0) + 1, kind=asked.kind, of=asked.of,
            root=asked.root, real=real, mode=mode, created_at=self._now_s,
            label=" ".join(asked.label.split())[:LABEL_CHARS], manifest=manifest.hex(),
            files=len(scan.entries), bytes=scan.bytes, added=scan.added + added,
            skipped=scan.skipped, skipped_count=scan.skipped_count, partial=scan.partial,
            took_s=round(time.monotonic() - began_s, 3),
        )  # fmt: skip
        self._records.add(record)
        over = [r for r in earlier if keep is None or r.id != keep.id]
        self._records.remove(over[: max(0, len(earlier) + 1 - self._config.per_session_max)])
        return record

    def _before(self, earlier: list[Checkpoint], real: str, recent: str) -> Entries:
        """The last look at the same folder, if there is one: what has not changed is not read."""
        last = next((r.manifest for r in reversed(earlier) if r.real == real), recent)
        if not last:
            return {}
        try:
            return unpack(self._blobs.content(bytes.fromhex(last)))
        except StoreError:
            return {}


def _open_given(root: str) -> tuple[str, int]:
    """The folder without links, open.

    Raises:
        StoreError: it cannot be opened.
    """
    real = os.path.realpath(root)
    try:
        return real, open_real(real)
    except OSError as exc:
        raise told(exc, Path(root)) from None


def _open_root(record: Checkpoint, *, make: bool) -> int:
    """The folder of a checkpoint, open; the caller owns the descriptor.

    Raises:
        Conflict: its path leads elsewhere than it did. NotFound: it is gone.
    """
    if os.path.realpath(record.root) != record.real:
        raise Conflict(
            f"{record.root} led to {record.real} when the checkpoint was taken and leads elsewhere "
            "now; nothing is touched."
        )
    try:
        return open_real(record.real)
    except FileNotFoundError:
        if not make:
            raise NotFound(f"The folder {record.root} is gone.") from None
    except OSError as exc:
        raise NotFound(f"{record.root} cannot be opened: {exc.strerror}.") from None
    above = open_real(os.path.dirname(record.real))  # noqa: PTH120 - text, as it was stored
    try:
        os.mkdir(os.path.basename(record.real), record.mode, dir_fd=above)  # noqa: PTH119
    finally:
        os.close(above)
    return open_real(record.real)


def _check_known(root_fd: int, then: Entries, record: Checkpoint, within: bytes) -> None:
    """Raises NotFound where a path is neither in the checkpoint nor in the folder."""
    if not within or within in then or any(path.startswith(within + b"/") for path in then):
        return
    folder, name = split(within)
    try:
        with opened(root_fd, folder) as fd:
            os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        raise NotFound(
            f"Checkpoint {record.id} holds no {shown(within)[:200]!r}, and there is none now; "
            "nothing was restored."
        ) from None


def _nothing(_value: None) -> None:
    """A plain result needs no release."""
