"""The part of `MemoryStore` that keeps containers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tenure.errors import StoreError
from tenure.store import outside as o

Containers = dict[str, o.ContainerRow]


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


APPLY: dict[type, Callable[[Any, Any], Any]] = {
    o.InsertContainer: _insert,
    o.EndContainer: _end,
    o.PruneContainers: _prune,
}


class OutsideRows:
    """Reads what `APPLY` has written."""

    async def containers(self) -> list[o.ContainerRow]:
        """Those that may be there, oldest first."""
        rows: Containers = self._rows.containers  # type: ignore[attr-defined]
        live = [row for row in rows.values() if not row.ended_at]
        return sorted(live, key=lambda row: (row.created_at, row.id))
