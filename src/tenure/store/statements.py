"""What each operation and read is in SQL: functions of a connection, nothing else.

They run on the writer's or a reader's thread; they decide nothing about transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from tenure.conversation import Message
from tenure.errors import LeaseLost
from tenure.store import base as b
from tenure.store.schema import approvals, events, items, leases, sessions, turns

_encode = msgspec.json.encode
_message = msgspec.json.Decoder(Message)

# Built once: the compiled form is cached by identity, which keeps a write near 50 us.
_select_epoch = sa.select(leases.c.epoch).where(leases.c.key == sa.bindparam("k"))
_insert_event = sa.insert(events)
_insert_item = sa.insert(items)
_insert_turn = sa.insert(turns)
_last_seq = sa.select(sa.func.max(events.c.seq)).where(
    events.c.session_id == sa.bindparam("sid"), events.c.epoch == sa.bindparam("e")
)
_count_item = (
    sa.update(sessions)
    .where(sessions.c.id == sa.bindparam("sid"))
    .values(message_count=sessions.c.message_count + 1)
)


def session_key(session_id: str) -> str:
    """The lease key of a session."""
    return f"session:{session_id}"


def apply(db: Connection, op: b.Op) -> Any:
    """Run one operation and return its result."""
    return _APPLY[type(op)](db, op)


def _fence(db: Connection, op: b.Fence) -> None:
    found = db.execute(_select_epoch, {"k": op.key}).scalar()
    if found != op.epoch:
        raise LeaseLost(f"{op.key} has a newer owner (epoch {found}, ours was {op.epoch}).")


def _take_lease(db: Connection, op: b.TakeLease) -> int:
    found = db.execute(_select_epoch, {"k": op.key}).scalar()
    if found is None:
        db.execute(sa.insert(leases).values(key=op.key, holder=op.holder, epoch=1, taken_at=op.at))
        return 1
    db.execute(
        sa.update(leases)
        .where(leases.c.key == op.key)
        .values(holder=op.holder, epoch=found + 1, taken_at=op.at)
    )
    return int(found) + 1


def _end_lease(db: Connection, op: b.EndLease) -> None:
    db.execute(
        sa.update(leases)
        .where(leases.c.key == op.key, leases.c.epoch == op.epoch)
        .values(holder="")
    )


def _insert_session(db: Connection, op: b.InsertSession) -> None:
    values = msgspec.structs.asdict(op.row)
    values["settings"] = _encode(op.row.settings)
    db.execute(sa.insert(sessions), values)
    db.execute(
        sa.insert(leases),
        {
            "key": session_key(op.row.id),
            "holder": op.holder,
            "epoch": 1,
            "taken_at": op.row.created_at,
        },
    )


def _patch_session(db: Connection, op: b.PatchSession) -> None:
    changes = dict(op.changes)
    if "settings" in changes:
        changes["settings"] = _encode(changes["settings"])
    db.execute(sa.update(sessions).where(sessions.c.id == op.id).values(changes))


def _delete_session(db: Connection, op: b.DeleteSession) -> bool:
    for table in (events, items, approvals, turns):
        db.execute(sa.delete(table).where(table.c.session_id == op.id))
    gone = db.execute(sa.delete(sessions).where(sessions.c.id == op.id)).rowcount > 0
    # The lease row stays as a tombstone with a higher epoch: a late writer is fenced off, so a
    # deleted session cannot come back.
    db.execute(
        sa.update(leases)
        .where(leases.c.key == session_key(op.id))
        .values(holder="", epoch=leases.c.epoch + 1)
    )
    return gone


def _insert_turn_row(db: Connection, op: b.InsertTurn) -> None:
    values = msgspec.structs.asdict(op.row)
    values["usage"] = _encode(op.row.usage)
    db.execute(_insert_turn, values)


def _patch_turn(db: Connection, op: b.PatchTurn) -> int:
    changes = dict(op.changes)
    if "usage" in changes:
        changes["usage"] = _encode(changes["usage"])
    done = db.execute(
        sa.update(turns).where(turns.c.id == op.id, turns.c.state.in_(b.TURN_OPEN)).values(changes)
    )
    return int(done.rowcount)


def _append_item(db: Connection, op: b.AppendItem) -> None:
    item = op.item
    db.execute(
        _insert_item,
        {
            "session_id": op.session_id,
            "seq": item.seq,
            "turn_id": item.turn_id,
            "kind": item.kind,
            "message": _encode(item.message),
            "replaces": item.replaces,
        },
    )
    db.execute(_count_item, {"sid": op.session_id})


def _append_event(db: Connection, op: b.AppendEvent) -> int:
    event = op.event
    last = db.execute(_last_seq, {"sid": op.session_id, "e": event.epoch}).scalar()
    seq = int(last or 0) + 1
    values = {
        "session_id": op.session_id,
        "epoch": event.epoch,
        "seq": seq,
        "type": event.type,
        "payload": event.payload,
        "at": event.at,
    }
    db.execute(_insert_event, values)
    return seq


def _insert_approval(db: Connection, op: b.InsertApproval) -> None:
    values = msgspec.structs.asdict(op.row)
    values["question"] = _encode(op.row.question)
    db.execute(sa.insert(approvals), values)


def _decide_approval(db: Connection, op: b.DecideApproval) -> int:
    done = db.execute(
        sa.update(approvals)
        .where(approvals.c.id == op.id, approvals.c.decision == "")
        .values(decision=op.decision, decided_at=op.at)
    )
    return int(done.rowcount)


def _settle(db: Connection, op: b.SettleLeftovers) -> dict[str, int]:
    ended = {"ended_at": op.at, "cause": op.reason}
    running = db.execute(
        sa.update(turns).where(turns.c.state == "running").values(state="interrupted", **ended)
    ).rowcount
    queued = db.execute(
        sa.update(turns).where(turns.c.state == "queued").values(state="refused", **ended)
    ).rowcount
    asked = db.execute(
        sa.update(approvals)
        .where(approvals.c.decision == "")
        .values(decision=f"void ({op.reason})", decided_at=op.at)
    ).rowcount
    closed = db.execute(
        sa.update(sessions)
        .where(sessions.c.status == "open")
        .values(status="closed", reason=op.reason)
    ).rowcount
    db.execute(sa.update(leases).where(leases.c.holder != "").values(holder=""))
    return {"turns": running + queued, "sessions": closed, "approvals": asked}


_APPLY: dict[type, Callable[[Connection, Any], Any]] = {
    b.Fence: _fence,
    b.TakeLease: _take_lease,
    b.EndLease: _end_lease,
    b.InsertSession: _insert_session,
    b.PatchSession: _patch_session,
    b.DeleteSession: _delete_session,
    b.InsertTurn: _insert_turn_row,
    b.PatchTurn: _patch_turn,
    b.AppendItem: _append_item,
    b.AppendEvent: _append_event,
    b.InsertApproval: _insert_approval,
    b.DecideApproval: _decide_approval,
    b.SettleLeftovers: _settle,
}


# --- reads ------------------------------------------------------------------------------------


def read_session(db: Connection, session_id: str) -> b.SessionRow | None:
    """One session."""
    row = db.execute(sa.select(sessions).where(sessions.c.id == session_id)).mappings().first()
    return _session(row) if row else None


def read_sessions(db: Connection, limit: int, status: str | None) -> list[b.SessionRow]:
    """Sessions, newest use first."""
    query = sa.select(sessions).order_by(sessions.c.updated_at.desc(), sessions.c.id.desc())
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
    query = sa.select(turns).where(turns.c.session_id == session_id).order_by(turns.c.ordinal)
    return [
        b.TurnRow(**{**row, "usage": msgspec.json.decode(row["usage"])})
        for row in db.execute(query).mappings()
    ]


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


def _session(row: Any) -> b.SessionRow:
    values = dict(row)
    values["settings"] = msgspec.json.decode(values["settings"])
    return b.SessionRow(**values)


def names(ops: Sequence[b.Op]) -> str:
    """The operations by name, for messages."""
    return ", ".join(type(op).__name__ for op in ops)
