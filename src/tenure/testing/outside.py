"""The part of `MemoryStore` that keeps containers, and contents that came with prompts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tenure.errors import StoreError
from tenure.store import files as f, outside as o
from tenure.store.base import HomeRow
from tenure.testing.memories import APPLY as REMEMBERED, Memories, MemoryRows

Containers = dict[str, o.ContainerRow]
Held = dict[tuple[str, str], None]
"""Session and digest of what no entry of history refers to yet."""


def _insert(rows: Any, op: o.InsertContainer) -> None:
    if op.row.id in rows.containers:
        raise StoreError("The store refused InsertContainer: there is one.")
    rows.containers[op.row.id] = op.row


def _end(rows: Any, op: o.EndContainer) -> bool:
    row = rows.containers.get(op.id)
    if row is None or row.ended_at:
        return False
    rows.containers[op.id] = msgspec.structs.replace(row, reason=op.reason, ended_at=op.at)
    return True


def _prune(rows: Any, op: o.PruneContainers) -> int:
    old = [row.id for row in rows.containers.values() if 0 < row.ended_at < op.before]
    for key in old:
        del rows.containers[key]
    return len(old)


def _hold(rows: Any, op: f.HoldUploads) -> None:
    if op.session_id not in rows.sessions:
        raise StoreError("The store refused HoldUploads: it is nobody's.")
    rows.held.update(dict.fromkeys((op.session_id, digest) for digest in op.digests))


def _release(rows: Any, op: f.ReleaseUploads) -> int:
    gone = [key for key in rows.held if key[0] == op.session_id and key[1] in op.digests]
    for key in gone:
        del rows.held[key]
    return len(gone)


APPLY: dict[type, Callable[[Any, Any], Any]] = {
    o.InsertContainer: _insert,
    o.EndContainer: _end,
    o.PruneContainers: _prune,
    f.HoldUploads: _hold,
    f.ReleaseUploads: _release,
    **REMEMBERED,
}


class OutsideTables:
    """The tables of this part, and of `testing/memories.py`."""

    def __init__(self) -> None:
        self.containers: Containers = {}
        self.held: Held = {}
        self.memories: Memories = {}
        self.memory_id = 0
        self.home: HomeRow | None = None

    def copy_into(self, other: OutsideTables) -> None:
        """Independent of later writes."""
        other.containers, other.memories = dict(self.containers), dict(self.memories)
        other.held = dict(self.held)
        other.memory_id, other.home = self.memory_id, self.home


class OutsideRows(MemoryRows):
    """Reads what `APPLY` has written."""

    async def containers(self) -> list[o.ContainerRow]:
        """Those that may be there, oldest first."""
        rows: Containers = self._rows.containers  # type: ignore[attr-defined]
        live = [row for row in rows.values() if not row.ended_at]
        return sorted(live, key=lambda row: (row.created_at, row.id))

    async def uploads(self, session_id: str = "") -> dict[str, tuple[int, ...]]:
        """Contents that a session, or any, refers to."""
        rows = self._rows  # type: ignore[attr-defined]
        pairs = [(sid, digest, 0) for sid, digest in rows.held if sid in rows.sessions]
        pairs += [
            (sid, digest, seq)
            for (sid, seq), row in rows.items.items()
            for upload in row.message.files
            for digest in upload.digests
        ]
        found: dict[str, set[int]] = {}
        for sid, digest, seq in pairs:
            if session_id in ("", sid):
                found.setdefault(digest, set()).add(seq)
        return {digest: tuple(sorted(seqs)) for digest, seqs in sorted(found.items())}
