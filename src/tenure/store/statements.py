"""What each operation is in SQL: functions of a connection, nothing else.

They run on the writer's thread; they decide nothing about transactions. Reads stand in `reads`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from tenure.errors import LeaseLost
from tenure.store import base as b, files_statements as files, finding, outside_statements
from tenure.store.hot import Hot, Patches
from tenure.store.schema import approvals, ends, events, home, items, leases, notes, sessions, turns
from tenure.store.unused import prunable, unused_since

_encode = msgspec.json.encode


def _open_turn() -> tuple[sa.Table, sa.ColumnElement[bool]]:
    is_open = sa.or_(
        turns.c.state == sa.literal_column("'queued'"),
        turns.c.state == sa.literal_column("'running'"),
    )
    return turns, sa.and_(turns.c.id == sa.bindparam("row_id"), is_open)


_select_epoch = Hot(sa.select(leases.c.epoch).where(leases.c.key == sa.bindparam("k")))
_select_state = Hot(sa.select(turns.c.state).where(turns.c.id == sa.bindparam("tid")))
_insert_item = Hot(sa.insert(items))
_insert_turn = Hot(sa.insert(turns))
_insert_session_row = Hot(sa.insert(sessions))
_insert_lease = Hot(sa.insert(leases))
_append_event_row = Hot(
    sa.insert(events)
    .from_select(
        ["session_id", "epoch", "seq", "type", "payload", "at"],
        sa.select(
            sa.bindparam("sid", type_=sa.String),
            sa.bindparam("e", type_=sa.Integer),
            sa.func.coalesce(sa.func.max(events.c.seq), sa.literal_column("0"))
            + sa.literal_column("1"),
            sa.bindparam("kind", type_=sa.String),
            sa.bindparam("payload", type_=sa.LargeBinary),
            sa.bindparam("at", type_=sa.Float),
        ).where(events.c.session_id == sa.bindparam("sid"), events.c.epoch == sa.bindparam("e")),
    )
    .returning(events.c.seq)
)
_count_item = Hot(
    sa.update(sessions)
    .where(sessions.c.id == sa.bindparam("sid"))
    .values(message_count=sessions.c.message_count + sa.literal_column("1"))
)
_end_lease_row = Hot(
    sa.update(leases)
    .where(leases.c.key == sa.bindparam("k"), leases.c.epoch == sa.bindparam("e"))
    .values(holder=sa.literal_column("''"))
)
_select_home = sa.select(home).where(home.c.key == "home")
_home_epoch = Hot(sa.select(home.c.epoch).where(home.c.key == sa.literal_column("'home'")))
_patch_sessions = Patches(lambda: (sessions, sessions.c.id == sa.bindparam("row_id")))
_patch_turns = Patches(_open_turn)


def session_key(session_id: str) -> str:
    """The lease key of a session."""
    return f"session:{session_id}"


def apply(db: Connection, op: b.Op) -> Any:
    """Run one operation and return its result."""
    return _APPLY[type(op)](db, op)


def _fence(db: Connection, op: b.Fence) -> None:
    found = _select_epoch.scalar(db, {"k": op.key})
    if found != op.epoch:
        raise LeaseLost(f"{op.key} has a newer owner (epoch {found}, ours was {op.epoch}).")


def _fence_turn(db: Connection, op: b.FenceTurn) -> None:
    found = _select_state.scalar(db, {"tid": op.id})
    if op.runs and found == "queued":
        raise LeaseLost(f"Turn {op.id} waits; nothing of it is written before its start.")
    if found not in b.TURN_OPEN:
        raise LeaseLost(f"Turn {op.id} is {found or 'not stored'}; it can write nothing.")


def _take_lease(db: Connection, op: b.TakeLease) -> int:
    found = _select_epoch.scalar(db, {"k": op.key})
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
    _end_lease_row(db, {"k": op.key, "e": op.epoch})


# --- the home -----------------------------------------------------------------------------------


def store_now(db: Connection) -> float:
    """Seconds since the epoch on the store's clock: leases are compared on no other."""
    return float(db.exec_driver_sql("SELECT (julianday('now') - 2440587.5) * 86400.0").scalar_one())


def read_home(db: Connection) -> b.HomeRow | None:
    """Who holds the home."""
    row = db.execute(_select_home).mappings().first()
    return b.HomeRow(**{k: v for k, v in row.items() if k != "key"}) if row else None


def check_home(db: Connection, epoch: int) -> None:
    """Raise `LeaseLost` unless the home is held at `epoch`."""
    found = _home_epoch.scalar(db, {})
    if found != epoch:
        raise LeaseLost(
            f"The home has been taken by another gateway (epoch {found}, ours was {epoch}); this "
            "one can write nothing more and ends."
        )


def _take_home(db: Connection, op: b.TakeHome) -> tuple[int, b.HomeRow | None]:
    now, before = store_now(db), read_home(db)
    if before is not None and before.expires_at > now and before.epoch != op.over:
        raise LeaseLost(
            f"The home is held (epoch {before.epoch}) for {before.expires_at - now:.0f} s more."
        )
    epoch = before.epoch + 1 if before else 1
    values = {
        "holder": op.holder,
        "epoch": epoch,
        "taken_at": now,
        "renewed_at": now,
        "expires_at": now + op.lease_s,
    }
    change: Any = sa.update(home) if before else sa.insert(home)
    db.execute(change.values(key="home", **values))
    return epoch, before


def _renew_home(db: Connection, op: b.RenewHome) -> None:
    check_home(db, op.epoch)
    now = store_now(db)
    db.execute(sa.update(home).values(renewed_at=now, expires_at=now + op.lease_s))


def _end_home(db: Connection, op: b.EndHome) -> None:
    db.execute(sa.update(home).where(home.c.epoch == op.epoch).values(holder="", expires_at=0.0))


def insert_sessions(db: Connection, ops: Sequence[b.InsertSession]) -> None:
    """New sessions with their leases, in few statements however many they are."""
    _insert_session_row.many(db, [_session_values(op.row) for op in ops])
    _insert_lease.many(db, [_first_lease(op) for op in ops])


def _insert_session(db: Connection, op: b.InsertSession) -> None:
    insert_sessions(db, (op,))


def _session_values(row: b.SessionRow) -> dict[str, Any]:
    values = msgspec.structs.asdict(row)
    values["settings"] = _encode(row.settings)
    values["tags"] = finding.stored_tags(row.tags)
    values["draft"] = files.stored_files(row.draft)
    return values


def _first_lease(op: b.InsertSession) -> dict[str, Any]:
    row = op.row
    return {"key": session_key(row.id), "holder": op.holder, "epoch": 1, "taken_at": row.created_at}


def _patch_session(db: Connection, op: b.PatchSession) -> int:
    changes = dict(op.changes)
    if "settings" in changes:
        found = db.scalar(sa.select(sessions.c.settings).where(sessions.c.id == op.id))
        kept = msgspec.json.decode(found) if found else {}
        changes["settings"] = _encode({**kept, **changes["settings"]})
    if "draft" in changes:
        changes["draft"] = files.stored_files(changes["draft"])
    return _patch_sessions(db, op.id, changes)


def _delete_session(db: Connection, op: b.DeleteSession) -> bool:
    finding.unindex_items(db, op.id)
    # Everything else that is a session's goes with its row: the schema says CASCADE.
    gone = db.execute(sa.delete(sessions).where(sessions.c.id == op.id)).rowcount > 0
    # The lease row stays as a tombstone with a higher epoch: a late writer is fenced off, so a
    # deleted session cannot come back.
    db.execute(
        sa.update(leases)
        .where(leases.c.key == session_key(op.id))
        .values(holder="", epoch=leases.c.epoch + 1)
    )
    return gone


def _prune_sessions(db: Connection, op: b.PruneSessions) -> list[str]:
    unused = prunable(op.before, empty=op.empty)
    found = [str(row) for row in db.execute(unused.limit(op.limit)).scalars()]
    return [name for name in found if _delete_session(db, b.DeleteSession(name))]


def _prune_events(db: Connection, op: b.PruneEvents) -> int:
    some = sa.exists().where(events.c.session_id == sessions.c.id)
    found = list(db.execute(unused_since(op.before).where(some).limit(op.limit)).scalars())
    db.execute(sa.delete(events).where(events.c.session_id.in_(found)))
    return len(found)


def _insert_turn_row(db: Connection, op: b.InsertTurn) -> None:
    values = msgspec.structs.asdict(op.row)
    values["usage"] = _encode(op.row.usage)
    values["files"] = files.stored_files(op.row.files)
    _insert_turn(db, values)


def _patch_turn(db: Connection, op: b.PatchTurn) -> int:
    changes = dict(op.changes)
    if "usage" in changes:
        changes["usage"] = _encode(changes["usage"])
    return _patch_turns(db, op.id, changes)


def _append_item(db: Connection, op: b.AppendItem) -> None:
    item = op.item
    _insert_item(
        db,
        {
            "session_id": op.session_id,
            "seq": item.seq,
            "turn_id": item.turn_id,
            "kind": item.kind,
            "message": _encode(item.message),
            "replaces": item.replaces,
        },
    )
    _count_item(db, {"sid": op.session_id})
    if item.kind == "message":
        finding.index_item(db, op.session_id, item.seq, item.message)
    for upload in item.message.files:
        files.refer(db, op.session_id, item.seq, upload.digests)


def _drop_items(db: Connection, op: b.DropItems) -> int:
    finding.unindex_items(db, op.session_id, op.first)
    files.drop_references(db, op.session_id, op.first)
    later = sa.and_(items.c.session_id == op.session_id, items.c.seq >= op.first)
    count = db.execute(sa.delete(items).where(later)).rowcount
    one = sessions.c.id == op.session_id
    db.execute(
        sa.update(sessions).where(one).values(message_count=sessions.c.message_count - count)
    )
    return int(count)


def _append_event(db: Connection, op: b.AppendEvent) -> int:
    event = op.event
    values = {"sid": op.session_id, "e": event.epoch, "kind": event.type}
    values |= {"payload": event.payload, "at": event.at}
    return int(_append_event_row.scalar(db, values))


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


_insert_end_row = Hot(sa.insert(ends))


def _insert_end(db: Connection, op: b.InsertEnd) -> None:
    epoch = _select_epoch.scalar(db, {"k": session_key(op.session_id)})
    values = {"session_id": op.session_id, "reason": op.reason, "at": op.at, "started_at": 0.0}
    _insert_end_row(db, {**values, "epoch": epoch})


def _start_end(db: Connection, op: b.StartEnd) -> None:
    waits = sa.and_(_end(op), ends.c.started_at == sa.literal_column("0"))
    if db.execute(sa.update(ends).where(waits).values(started_at=op.at)).rowcount == 0:
        raise LeaseLost(f"The end of session {op.session_id} was taken up already.")


def _finish_end(db: Connection, op: b.FinishEnd) -> None:
    db.execute(sa.delete(ends).where(_end(op)))


def _end(op: b.StartEnd | b.FinishEnd) -> sa.ColumnElement[bool]:
    return sa.and_(ends.c.session_id == op.session_id, ends.c.epoch == op.epoch)


def _end_idle(db: Connection, op: b.EndIdle) -> bool:
    idle = sa.and_(sessions.c.id == op.session_id, sessions.c.status == "idle")
    closed = sa.update(sessions).where(idle).values(status="closed", reason=op.reason)
    if db.execute(closed).rowcount == 0:
        return False
    lease = sa.update(leases).where(leases.c.key == session_key(op.session_id))
    db.execute(lease.values(holder="", epoch=leases.c.epoch + 1))
    if op.hook:
        _insert_end(db, b.InsertEnd(op.session_id, op.reason, op.at))
    return True


def _insert_note(db: Connection, op: b.InsertNote) -> None:
    db.execute(sa.insert(notes), msgspec.structs.asdict(op.row))


def _deliver_notes(db: Connection, op: b.DeliverNotes) -> None:
    waiting = sa.and_(notes.c.id.in_(op.ids), notes.c.delivered_at == sa.literal_column("0"))
    if db.execute(sa.update(notes).where(waiting).values(delivered_at=op.at)).rowcount < len(
        op.ids
    ):
        raise LeaseLost(f"Of the notes {', '.join(op.ids)} some were delivered already.")


def _mark_interrupted(db: Connection, op: b.MarkInterrupted) -> int:
    cut = sa.update(turns).where(turns.c.state == "running")
    if op.session_id:
        cut = cut.where(turns.c.session_id == op.session_id)
    # A turn that began after the last sign of life was alive until then, at least.
    began = turns.c.started_at
    at = sa.case((began > op.at, began), else_=op.at)
    return int(db.execute(cut.values(marked_at=at)).rowcount)


def _take_mark(db: Connection, op: b.TakeMark) -> None:
    marked = sa.update(turns).where(turns.c.id == op.id, turns.c.marked_at > 0)
    if db.execute(marked.values(marked_at=0.0)).rowcount == 0:
        raise LeaseLost(f"Turn {op.id} is not marked as interrupted, or its mark was taken.")


def _revoke_approval(db: Connection, op: b.RevokeApproval) -> int:
    given = sa.and_(approvals.c.id == op.id, approvals.c.decision == "session")
    values = {"decision": "session (revoked)", "decided_at": op.at}
    return int(db.execute(sa.update(approvals).where(given).values(**values)).rowcount)


def _settle(db: Connection, op: b.SettleLeftovers) -> dict[str, int]:
    one = bool(op.session_id)
    values = {"at": op.at, "reason": op.reason, "void": f"void ({op.reason})", "sid": op.session_id}
    counts = {"turns": 0, "sessions": 0, "approvals": 0}
    counts["turns"] += _settle_running[one](db, values)
    if not op.keep_queued:
        counts["turns"] += _settle_queued[one](db, values)
    counts["approvals"] = _void_approvals[one](db, values)
    if not one:
        for sid in _open_sessions(db) if op.hook else ():
            _insert_end(db, b.InsertEnd(sid, op.reason, op.at))
        is_open = sa.update(sessions).where(sessions.c.status == "open")
        counts["sessions"] = db.execute(is_open.values(status="closed", reason=op.reason)).rowcount
        db.execute(sa.update(leases).where(leases.c.holder != "").values(holder=""))
    return counts


def _open_sessions(db: Connection) -> list[str]:
    found = db.execute(sa.select(sessions.c.id).where(sessions.c.status == "open"))
    return [str(sid) for sid in found.scalars()]


def _settling(update: sa.Update, table: sa.Table) -> tuple[Hot, Hot]:
    """The statement for the whole home, and for one session."""
    return Hot(update), Hot(update.where(table.c.session_id == sa.bindparam("sid")))


def _end_turns(state: str, end: str) -> tuple[Hot, Hot]:
    found = sa.update(turns).where(turns.c.state == sa.literal_column(f"'{state}'"))
    ended: dict[str, Any] = {"ended_at": sa.bindparam("at"), "cause": sa.bindparam("reason")}
    return _settling(found.values(state=sa.literal_column(f"'{end}'"), **ended), turns)


_settle_running = _end_turns("running", "interrupted")
_settle_queued = _end_turns("queued", "refused")
_void_approvals = _settling(
    sa.update(approvals)
    .where(approvals.c.decision == sa.literal_column("''"))
    .values(decision=sa.bindparam("void"), decided_at=sa.bindparam("at")),
    approvals,
)


_APPLY: dict[type, Callable[[Connection, Any], Any]] = {
    b.Fence: _fence,
    b.FenceTurn: _fence_turn,
    b.TakeLease: _take_lease,
    b.EndLease: _end_lease,
    b.InsertSession: _insert_session,
    b.PatchSession: _patch_session,
    b.TagSession: finding.tag_session,
    b.DeleteSession: _delete_session,
    b.PruneSessions: _prune_sessions,
    b.PruneEvents: _prune_events,
    b.InsertTurn: _insert_turn_row,
    b.PatchTurn: _patch_turn,
    b.AppendItem: _append_item,
    b.DropItems: _drop_items,
    b.AppendEvent: _append_event,
    b.InsertEnd: _insert_end,
    b.StartEnd: _start_end,
    b.FinishEnd: _finish_end,
    b.EndIdle: _end_idle,
    b.InsertNote: _insert_note,
    b.DeliverNotes: _deliver_notes,
    b.InsertApproval: _insert_approval,
    b.DecideApproval: _decide_approval,
    b.RevokeApproval: _revoke_approval,
    b.TakeHome: _take_home,
    b.RenewHome: _renew_home,
    b.EndHome: _end_home,
    b.MarkInterrupted: _mark_interrupted,
    b.TakeMark: _take_mark,
    b.SettleLeftovers: _settle,
    **files.APPLY,
    **outside_statements.APPLY,
}


def names(ops: Sequence[b.Op]) -> str:
    """The operations by name, for messages."""
    return ", ".join(type(op).__name__ for op in ops)
