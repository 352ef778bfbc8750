"""The part of `MemoryStore` that keeps what agents remember."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tenure.store import memories as m
from tenure.store.terms import Term
from tenure.testing.search import spans_of

Memories = dict[int, m.MemoryRow]


def _insert(rows: Any, op: m.InsertMemory) -> int:
    kept: Memories = rows.memories
    used = sum(len(row.text.encode()) for row in kept.values())
    if len(kept) >= op.rows_max or used + len(op.row.text.encode()) > op.bytes_max:
        return 0
    rows.memory_id += 1
    kept[rows.memory_id] = msgspec.structs.replace(op.row, id=rows.memory_id)
    return int(rows.memory_id)


def _accept(rows: Any, op: m.AcceptMemory) -> bool:
    row = rows.memories.get(op.id)
    if row is None:
        return False
    text = op.text or row.text
    changed = msgspec.structs.replace(row, state="accepted", decided_at=op.at, text=text)
    rows.memories[op.id] = changed
    return True


def _delete(rows: Any, op: m.DeleteMemories) -> list[int]:
    kept: Memories = rows.memories
    found = [n for n in sorted(set(op.ids)) if n in kept and op.state in ("", kept[n].state)]
    for number in found:
        del kept[number]
    return found


APPLY: dict[type, Callable[[Any, Any], Any]] = {
    m.InsertMemory: _insert,
    m.AcceptMemory: _accept,
    m.DeleteMemories: _delete,
}


class MemoryRows:
    """Reads what `APPLY` has written."""

    async def memories(self) -> list[m.MemoryRow]:
        """All notes, oldest first."""
        rows: Memories = self._rows.memories  # type: ignore[attr-defined]
        return [rows[number] for number in sorted(rows)]

    async def find_memories(
        self, terms: Sequence[Term], *, state: str, limit: int
    ) -> list[m.MemoryRow]:
        """Notes in which every term stands, the newest first."""
        found = [
            row
            for row in await self.memories()
            if state in ("", row.state) and all(spans_of(row.text, term) for term in terms)
        ]
        return found[::-1][:limit]
