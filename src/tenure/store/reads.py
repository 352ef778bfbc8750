"""What each read is in SQL: functions of a connection, run on a reader's thread."""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from tenure.conversation import Message
from tenure.store import base as b, finding
from tenure.store.files_statements import read_files
from tenure.store.schema import approvals, ends, events, items, leases, notes, sessions, turns

_message = msgspec.json.Decoder(Message)


def read_session(db: Connection, session_id: str) -> b.SessionRow | None:
    """One session."""
    row = db.execute(sa.select(sessions).where(sessions.c.id == session_id)).mappings().first()
    return _session(row) if row else None


def read_sessions(
    db: Connection, limit: int, status: str | None, only: b.Sieve | None
) -> list[b.SessionRow]:
    """Sessions, newest use first; of those that `only` lets through the pinned ones first."""
    query = sa.select(sessions)
    if only is not None:
        query = finding.sieved(query, only).order_by(sessions.c.pinned.desc())
    query = query.order_by(sessions.c.updated_at.desc(), sessions.c.id.desc())
    if status is not None:
        query = query.where(sessions.c.status == status)
    return [_session(row) for row in db.execute(query.limit(limit)).mappings()]


def read_history(db: Connection, session_id: str) -> list[b.ItemRow]:
    """All entries in order."""
    query = sa.select(items).where(items.c.session_id == session_id).order_by(items.c.seq)
    return [
        b.ItemRow(
            row["seq"],
            row["turn_id"],
            row["kind"],
            _message.decode(row["message"]),
            row["replaces"],
        )
        for row in db.execute(query).mappings()
    ]


def read_turns(db: Connection, session_id: str) -> list[b.TurnRow]:
    """All turns in order."""
    place = (turns.c.ordinal, turns.c.attempts, turns.c.created_at)
    query = sa.select(turns).where(turns.c.session_id == session_id).order_by(*place)
    return [_turn(row) for row in db.execute(query).mappings()]


def read_turn_by_key(db: Connection, session_id: str, key: str) -> b.TurnRow | None:
    """The turn whose prompt came with this idempotency key."""
    query = sa.select(turns).where(turns.c.session_id == session_id, turns.c.key == key)
    row = db.execute(query.where(turns.c.key != "")).mappings().first()
    return _turn(row) if row else None


def read_questions(db: Connection, session_id: str, decision: str) -> list[b.ApprovalRow]:
    """The questions of a session that were decided in one way, oldest first."""
    chosen = sa.and_(approvals.c.session_id == session_id, approvals.c.decision == decision)
    query = sa.select(approvals).where(chosen).order_by(approvals.c.created_at, approvals.c.id)
    return [
        b.ApprovalRow(**{**row, "question": msgspec.json.decode(row["question"])})
        for row in db.execute(query).mappings()
    ]


def read_notes(db: Connection, session_id: str) -> list[b.NoteRow]:
    """The notes of a session that were not delivered, oldest first."""
    waiting = sa.and_(notes.c.session_id == session_id, notes.c.delivered_at == sa.text("0"))
    query = sa.select(notes).where(waiting).order_by(notes.c.created_at, notes.c.id)
    return [b.NoteRow(**row) for row in db.execute(query).mappings()]


def read_ends(db: Connection) -> list[b.EndRow]:
    """Ends of sessions whose hook has not finished, oldest first."""
    query = sa.select(ends).order_by(ends.c.at, ends.c.session_id, ends.c.epoch)
    return [b.EndRow(**row) for row in db.execute(query).mappings()]


def read_unfinished(db: Connection) -> list[b.Unfinished]:
    """Sessions with queued prompts or marked turns, the one that waits longest first."""
    waiting = sa.or_(turns.c.state == "queued", turns.c.marked_at > sa.literal_column("0"))
    lease = leases.c.key == sa.literal("session:") + turns.c.session_id
    query = sa.select(turns.c.session_id, leases.c.epoch).join(leases, lease).where(waiting)
    query = query.group_by(turns.c.session_id, leases.c.epoch)
    found = db.execute(query.order_by(sa.func.min(turns.c.created_at)))
    return [b.Unfinished(session_id, epoch) for session_id, epoch in found]


def read_events(
    db: Connection, session_id: str, epoch: int, after_seq: int, limit: int
) -> list[b.EventRow]:
    """Durable events of one epoch after a sequence number."""
    query = (
        sa.select(events)
        .where(
            events.c.session_id == session_id,
            events.c.epoch == epoch,
            events.c.seq > after_seq,
        )
        .order_by(events.c.seq)
        .limit(limit)
    )
    return [
        b.EventRow(row["epoch"], row["seq"], row["type"], row["payload"], row["at"])
        for row in db.execute(query).mappings()
    ]


def _turn(row: Any) -> b.TurnRow:
    values = dict(row)
    values["usage"] = msgspec.json.decode(values["usage"])
    values["files"] = read_files(values["files"])
    return b.TurnRow(**values)


def _session(row: Any) -> b.SessionRow:
    values = dict(row)
    values["settings"] = msgspec.json.decode(values["settings"])
    values["pinned"], values["archived"] = bool(values["pinned"]), bool(values["archived"])
    values["tags"] = tuple(values["tags"].split())
    values["draft"] = read_files(values["draft"])
    return b.SessionRow(**values)
