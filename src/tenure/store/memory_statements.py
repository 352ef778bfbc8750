"""What the writes and reads of `memories` are in SQL; see `statements`.

Deleting is for good: freed space is overwritten (``secure_delete``, on every handle), the index is
made anew from what is left (there are few notes), and the log is folded into the file and cut once
the write is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from tenure.store import memories as m
from tenure.store.schema import memories
from tenure.store.terms import Term

FOLD = "fold the log"
"""Set in a connection's `info` by a write whose traces must not stay in the log."""
_INDEX = "INSERT INTO memory_search (rowid, text) SELECT id, text FROM memories WHERE id = ?"
_REBUILD = "INSERT INTO memory_search (memory_search) VALUES ('rebuild')"
_FIND = """
SELECT m.* FROM memory_search s JOIN memories m ON m.id = s.rowid
WHERE memory_search MATCH :match AND (:state = '' OR m.state = :state)
ORDER BY bm25(memory_search), m.id DESC LIMIT :most
"""


def _insert(db: Connection, op: m.InsertMemory) -> int:
    size = sa.func.coalesce(sa.func.sum(sa.func.length(sa.cast(memories.c.text, sa.BLOB))), 0)
    count, used = db.execute(sa.select(sa.func.count(), size).select_from(memories)).one()
    if count >= op.rows_max or used + len(op.row.text.encode()) > op.bytes_max:
        return 0
    values = msgspec.structs.asdict(op.row)
    del values["id"]
    number = db.execute(sa.insert(memories).values(**values)).inserted_primary_key
    assert number is not None
    db.exec_driver_sql(_INDEX, (number[0],))
    return int(number[0])


def _accept(db: Connection, op: m.AcceptMemory) -> bool:
    one = sa.update(memories).where(memories.c.id == op.id)
    values: dict[str, Any] = {"state": "accepted", "decided_at": op.at}
    if not op.text:
        return db.execute(one.values(**values)).rowcount > 0
    found = db.execute(one.values(**values, text=op.text)).rowcount > 0
    _forget(db)
    return found


def _delete(db: Connection, op: m.DeleteMemories) -> list[int]:
    among = memories.c.state == op.state if op.state else sa.true()
    chosen = sa.and_(memories.c.id.in_(op.ids), among)
    found = list(db.execute(sa.select(memories.c.id).where(chosen)).scalars())
    if found:
        db.execute(sa.delete(memories).where(memories.c.id.in_(found)))
        _forget(db)
    return found


def _forget(db: Connection) -> None:
    """Let nothing be left of what was overwritten or removed."""
    db.exec_driver_sql(_REBUILD)
    db.info[FOLD] = True


def fold(db: Connection) -> None:
    """After a commit: cut the log if a write wants it; where a reader is in the way, next time."""
    if FOLD in db.info:
        row = db.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").first()
        if row is not None and not row[0]:
            del db.info[FOLD]


APPLY: dict[type, Callable[[Connection, Any], Any]] = {
    m.InsertMemory: _insert,
    m.AcceptMemory: _accept,
    m.DeleteMemories: _delete,
}


def read_memories(db: Connection) -> list[m.MemoryRow]:
    """All notes, oldest first."""
    query = sa.select(memories).order_by(memories.c.id)
    return [m.MemoryRow(**row) for row in db.execute(query).mappings()]


def find_memories(
    db: Connection, terms: Sequence[Term], state: str, limit: int
) -> list[m.MemoryRow]:
    """Notes in which every term stands, the best match first."""
    match = " AND ".join(f'"{" ".join(t.words)}"{"*" if t.prefix else ""}' for t in terms)
    values = {"match": match, "state": state, "most": limit}
    return [m.MemoryRow(**row) for row in db.execute(sa.text(_FIND), values).mappings()]
