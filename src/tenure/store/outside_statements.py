"""What the writes and reads of `outside` are in SQL; see `statements`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from tenure.store import memory_statements, outside as o
from tenure.store.schema import containers

_live = containers.c.ended_at == sa.text("0")


def _insert(db: Connection, op: o.InsertContainer) -> None:
    db.execute(sa.insert(containers).values(**msgspec.structs.asdict(op.row)))


def _end(db: Connection, op: o.EndContainer) -> bool:
    one = sa.update(containers).where(containers.c.id == op.id, _live)
    return db.execute(one.values(reason=op.reason, ended_at=op.at)).rowcount > 0


def _prune(db: Connection, op: o.PruneContainers) -> int:
    old = sa.and_(sa.not_(_live), containers.c.ended_at < op.before)
    return db.execute(sa.delete(containers).where(old)).rowcount


APPLY: dict[type, Callable[[Connection, Any], Any]] = {
    o.InsertContainer: _insert,
    o.EndContainer: _end,
    o.PruneContainers: _prune,
    **memory_statements.APPLY,
}
"""Of this part, and of `memory_statements`."""


def read_containers(db: Connection) -> list[o.ContainerRow]:
    """Those that may be there, oldest first."""
    query = sa.select(containers).where(_live).order_by(containers.c.created_at, containers.c.id)
    return [o.ContainerRow(**row) for row in db.execute(query).mappings()]
