"""The checkpoints there are: one small file each, in a folder a session. Blocks: for a thread.

``sessions/<session>/<ordinal>-<id>.json`` is a record; it names its manifest by digest.
``restoring/<id>.json`` is a restore that is under way, or was cut.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from tenure.checkpoints.blobs import told
from tenure.checkpoints.scan import Skipped
from tenure.errors import NotFound
from tenure.ids import SESSION_ID
from tenure.paths import make_private

StructT = TypeVar("StructT", bound=msgspec.Struct)
LABEL_CHARS = 80
ID_CHARS_MIN = 4
"""Of the beginning of an id; less looks like a number."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What a folder held at one moment.

    Attributes:
        id: 12 hex digits; a beginning that is unique in its session will do.
        session_id, turn_id: whose; a restore has no turn.
        ordinal: its number in the session; stays its own when others come or go.
        kind: turn (before a turn's first change) or restore (before a restore).
        of: for a restore: the checkpoint that was given back.
        root, real: the folder, as the session names it and without links.
        mode: the folder's own permission bits.
        created_at: wall-clock seconds.
        label: for a restore: of what; a turn's prompt stands in the database alone.
        manifest: digest of the list of entries.
        files, bytes: how many entries and bytes it covers; added: bytes that were new.
        skipped, skipped_count, partial: what it does not cover; see `Scan`.
        took_s: seconds.
    """

    id: str
    session_id: str
    turn_id: str
    ordinal: int
    kind: Literal["turn", "restore"]
    of: str
    root: str
    real: str
    mode: int
    created_at: float
    label: str
    manifest: str
    files: int
    bytes: int
    added: int
    skipped: list[Skipped]
    skipped_count: int
    partial: bool
    took_s: float


class Restoring(msgspec.Struct, frozen=True, kw_only=True):
    """A restore that has begun: enough to tidy up after it."""

    real: str
    part: str
    manifest: str
    checkpoint: str


class Records:
    """The records below a folder of ours."""

    def __init__(self, folder: Path) -> None:
        self._sessions = folder / "sessions"
        self._restoring = folder / "restoring"
        self._tmp = folder / "tmp"

    def add(self, record: Checkpoint) -> None:
        """Store a record; its manifest is stored already.

        Raises:
            StoreError: it cannot be written.
        """
        self._write(self._folder(record.session_id) / _name(record), record)

    def of_session(self, session_id: str) -> list[Checkpoint]:
        """A session's, oldest first."""
        return _read_all(self._folder(session_id), Checkpoint)

    def all(self) -> list[Checkpoint]:
        """Every session's, oldest first."""
        found = [r for session in self.sessions() for r in self.of_session(session)]
        return sorted(found, key=lambda r: (r.created_at, r.ordinal))

    def sessions(self) -> list[str]:
        """The sessions that have any."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(p.name for p in self._sessions.iterdir() if SESSION_ID.fullmatch(p.name))
        return []

    def remove(self, records: Iterable[Checkpoint]) -> None:
        """Forget records; their contents go with the next sweep."""
        for record in records:
            folder = self._folder(record.session_id)
            (folder / _name(record)).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                folder.rmdir()

    def forget(self, session_id: str) -> bool:
        """Forget a session's; whether there were any."""
        folder = self._folder(session_id)
        existed = folder.exists()
        shutil.rmtree(folder, ignore_errors=True)
        return existed

    def _folder(self, session_id: str) -> Path:
        assert SESSION_ID.fullmatch(session_id), session_id
        return self._sessions / session_id

    # --- restores under way -------------------------------------------------------------------

    def begin_restore(self, checkpoint_id: str, note: Restoring) -> None:
        """Note a restore before its first step.

        Raises:
            StoreError: it cannot be written; the restore must not begin.
        """
        self._write(self._restoring / f"{checkpoint_id}.json", note)

    def end_restore(self, checkpoint_id: str) -> None:
        """It is over, or tidied up after."""
        (self._restoring / f"{checkpoint_id}.json").unlink(missing_ok=True)

    def cut_restores(self) -> dict[str, Restoring]:
        """Those that were noted and not ended."""
        with contextlib.suppress(FileNotFoundError):
            names = sorted(self._restoring.iterdir())
            return {p.stem: note for p in names if (note := _read(p, Restoring)) is not None}
        return {}

    def _write(self, path: Path, value: msgspec.Struct) -> None:
        part = self._tmp / f"{path.name}.part"
        try:
            make_private(path.parent)
            make_private(self._tmp)
            fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(msgspec.json.encode(value))
            part.replace(path)
        except OSError as exc:
            part.unlink(missing_ok=True)
            raise told(exc, path.parent) from None


def find(records: list[Checkpoint], ref: str) -> Checkpoint:
    """The checkpoint that is meant: an id, its beginning, or its number, which stays its own.

    Empty means the newest one of a turn.

    Raises:
        NotFound: none, or more than one.
    """
    newest_first = list(reversed(records))
    if not ref:
        chosen = [r for r in newest_first if r.kind == "turn"][:1]
    else:
        chosen = [r for r in newest_first if str(r.ordinal) == ref] or [
            r for r in newest_first if r.id.startswith(ref) and len(ref) >= ID_CHARS_MIN
        ]
    if not chosen and not ref:
        raise NotFound("There is no checkpoint yet; one is taken before a turn changes files.")
    if len(chosen) != 1:
        few = "more than one checkpoint" if chosen else "no checkpoint"
        raise NotFound(
            f"There is {few} {ref[:40]!r} in this session; `tenure checkpoint list` shows them."
        )
    return chosen[0]


def _name(record: Checkpoint) -> str:
    return f"{record.ordinal:06}-{record.id}.json"


def _read_all(folder: Path, kind: type[StructT]) -> list[StructT]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        found = (_read(path, kind) for path in sorted(folder.iterdir()))
        return [record for record in found if record is not None]
    return []


def _read(path: Path, kind: type[StructT]) -> StructT | None:
    """A record, or None where it is damaged or gone: the others count all the same."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None
