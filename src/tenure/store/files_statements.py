"""What the writes and reads of `files` are in SQL; see `statements`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from tenure.conversation import Upload
from tenure.store import files as f
from tenure.store.schema import uploads

_decode = msgspec.json.Decoder(tuple[Upload, ...]).decode


def stored_files(files: tuple[Upload, ...]) -> str:
    """Files as they stand in a column; empty for none."""
    return msgspec.json.encode(files).decode() if files else ""


def read_files(text: str) -> tuple[Upload, ...]:
    """Files from a column."""
    return _decode(text) if text else ()


def refer(db: Connection, session_id: str, seq: int, digests: Iterable[str]) -> None:
    """Entry `seq` (0: none yet) refers to contents; what it refers to already is left alone."""
    known = sa.select(uploads.c.digest).where(
        uploads.c.session_id == session_id, uploads.c.seq == seq
    )
    there = set(db.execute(known).scalars())
    for digest in dict.fromkeys(digests):
        if digest not in there:
            db.execute(sa.insert(uploads).values(session_id=session_id, digest=digest, seq=seq))


def drop_references(db: Connection, session_id: str, first: int) -> None:
    """Entry `first` and later ones are gone."""
    db.execute(sa.delete(uploads).where(uploads.c.session_id == session_id, uploads.c.seq >= first))


def _hold(db: Connection, op: f.HoldUploads) -> None:
    refer(db, op.session_id, 0, op.digests)


def _release(db: Connection, op: f.ReleaseUploads) -> int:
    held = sa.and_(uploads.c.session_id == op.session_id, uploads.c.seq == sa.literal_column("0"))
    chosen = sa.delete(uploads).where(held, uploads.c.digest.in_(op.digests))
    return int(db.execute(chosen).rowcount)


APPLY: dict[type, Callable[[Connection, Any], Any]] = {
    f.HoldUploads: _hold,
    f.ReleaseUploads: _release,
}


def read_uploads(db: Connection, session_id: str) -> dict[str, tuple[int, ...]]:
    """Digests that a session refers to (empty: any does), each with the entries that do."""
    query = sa.select(uploads.c.digest, uploads.c.seq).distinct()
    if session_id:
        query = query.where(uploads.c.session_id == session_id)
    found: dict[str, tuple[int, ...]] = {}
    for digest, seq in db.execute(query.order_by(uploads.c.digest, uploads.c.seq)):
        found[digest] = (*found.get(digest, ()), seq)
    return found
