"""A store in memory that keeps the contract of the real one, and fails or waits when told to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec

from tenure.conversation import Found
from tenure.errors import LeaseLost, StoreError
from tenure.store import base as b
from tenure.store.terms import Term
from tenure.testing.gates import Gate
from tenure.testing.outside import APPLY as OUTSIDE, OutsideRows, OutsideTables
from tenure.testing.search import found_in, lets_through


class _Rows(OutsideTables):
    """All tables; copied for each write, so that a write that fails leaves nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions: dict[str, dict[str, Any]] = {}
        self.turns: dict[str, dict[str, Any]] = {}
        self.items: dict[tuple[str, int], b.ItemRow] = {}
        self.events: dict[tuple[str, int, int], b.EventRow] = {}
        self.leases: dict[str, tuple[str, int]] = {}
        self.approvals: dict[str, dict[str, Any]] = {}
        self.notes: dict[str, dict[str, Any]] = {}
        self.ends: dict[tuple[str, int], b.EndRow] = {}

    def copy(self) -> _Rows:
        """Independent of later writes; the rows' own values are never changed in place."""
        other = _Rows()
        for table in ("sessions", "turns", "approvals", "notes"):
            setattr(other, table, {k: dict(row) for k, row in getattr(self, table).items()})
        for table in ("items", "events", "leases", "ends"):
            setattr(other, table, dict(getattr(self, table)))
        self.copy_into(other)
        return other


_Write = tuple[tuple[b.Op, ...], asyncio.Future[list[Any]], Exception | None]


class MemoryStore(OutsideRows):
    """A `Store`: `writes` records what was accepted, `gate` holds commits back, `fail` fails one.

    Args:
        gate: while parked, writes are accepted and not committed, as behind a slow disk.
    """

    def __init__(self, gate: Gate | None = None) -> None:
        self._rows = _Rows()
        self._queue: asyncio.Queue[_Write] = asyncio.Queue()
        self._gate = gate
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._home: tuple[int, Callable[[], object]] | None = None
        self._failures: list[tuple[int, Exception]] = []
        self.writes: list[tuple[b.Op, ...]] = []

    def fail(self, error: Exception, *, after: int = 0) -> None:
        """Fail one write with `error`, after `after` more have gone well."""
        self._failures.append((len(self.writes) + after, error))

    def write(self, *ops: b.Op) -> asyncio.Future[list[Any]]:
        """Accept a write; see `Store.write`."""
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        if self._closed:
            future.set_exception(StoreError("The store is closed; nothing more is written."))
            return future
        number = len(self.writes)
        self.writes.append(ops)
        failure = next((error for at, error in self._failures if at == number), None)
        self._queue.put_nowait((ops, future, failure))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._commit(), name="memory store")
        return future

    async def _commit(self) -> None:
        while not self._queue.empty():
            if self._gate is not None:
                await self._gate.park()
            ops, future, failure = self._queue.get_nowait()
            before = self._rows.copy()
            try:
                if failure is not None:
                    raise failure  # noqa: TRY301 - as an operation would
                self._check_home()
                results = [_APPLY[type(op)](self._rows, op) for op in ops]
            except Exception as exc:  # noqa: BLE001 - whatever the test wants it to fail with
                self._rows = before
                if not future.done():
                    future.set_exception(exc)
                continue
            if not future.done():
                future.set_result(results)

    def _check_home(self) -> None:
        if self._home is not None:
            epoch, lost = self._home
            found = self._rows.home.epoch if self._rows.home else None
            if found != epoch:
                self._home = (epoch, lambda: None)
                lost()
                raise LeaseLost(f"The home has been taken by another gateway (epoch {found}).")

    async def session(self, session_id: str) -> b.SessionRow | None:
        """One session."""
        row = self._rows.sessions.get(session_id)
        return None if row is None else b.SessionRow(**row)

    async def sessions(
        self, *, limit: int, status: str | None = None, only: b.Sieve | None = None
    ) -> list[b.SessionRow]:
        """Sessions, newest use first; with `only`, what it lets through, pinned ones first."""
        rows = [b.SessionRow(**row) for row in self._rows.sessions.values()]
        rows = [row for row in rows if status is None or row.status == status]
        rows.sort(key=lambda r: (r.updated_at, r.id), reverse=True)
        if only is not None:
            rows = sorted((r for r in rows if lets_through(only, r)), key=lambda r: not r.pinned)
        return rows[:limit]

    async def search(self, terms: tuple[Term, ...], *, only: b.Sieve, limit: int) -> list[Found]:
        """Sessions in whose messages every term stands, most such entries first."""
        rows = await self.sessions(limit=10**9, only=only)
        return found_in(self._rows.items, rows, terms)[:limit]

    async def history(self, session_id: str) -> list[b.ItemRow]:
        """All entries in order."""
        return [row for (sid, _), row in sorted(self._rows.items.items()) if sid == session_id]

    async def turn_by_key(self, session_id: str, key: str) -> b.TurnRow | None:
        """The turn whose prompt came with this idempotency key."""
        return next((r for r in await self.turns(session_id) if r.key == key != ""), None)

    async def questions(self, session_id: str, *, decision: str) -> list[b.ApprovalRow]:
        """The questions of a session that were decided in one way, oldest first."""
        rows = [b.ApprovalRow(**row) for row in self._rows.approvals.values()]
        chosen = [r for r in rows if (r.session_id, r.decision) == (session_id, decision)]
        return sorted(chosen, key=lambda r: (r.created_at, r.id))

    async def notes(self, session_id: str) -> list[b.NoteRow]:
        """The notes of a session that were not delivered, oldest first."""
        rows = [b.NoteRow(**row) for row in self._rows.notes.values()]
        chosen = [r for r in rows if r.session_id == session_id and not r.delivered_at]
        return sorted(chosen, key=lambda r: (r.created_at, r.id))

    async def ends(self) -> list[b.EndRow]:
        """Ends of sessions whose hook has not finished, oldest first."""
        return sorted(self._rows.ends.values(), key=lambda r: (r.at, r.session_id, r.epoch))

    async def turns(self, session_id: str) -> list[b.TurnRow]:
        """All turns in order."""
        rows = [b.TurnRow(**row) for row in self._rows.turns.values()]
        place = [
            (r.ordinal, r.attempts, r.created_at, r) for r in rows if r.session_id == session_id
        ]
        return [row for *_, row in sorted(place, key=lambda entry: entry[:3])]

    async def unfinished(self) -> list[b.Unfinished]:
        """Sessions with queued prompts or marked turns, the one that waits longest first."""
        found: dict[str, float] = {}
        for row in self._rows.turns.values():
            if row["state"] == "queued" or row["marked_at"]:
                sid = row["session_id"]
                found[sid] = min(found.get(sid, row["created_at"]), row["created_at"])
        order = sorted(found, key=lambda sid: found[sid])
        return [b.Unfinished(sid, self._rows.leases[f"session:{sid}"][1]) for sid in order]

    async def home(self) -> b.HomeRow | None:
        """Who holds the home."""
        return self._rows.home

    def hold_home(self, epoch: int, lost: Callable[[], object]) -> None:
        """Fence every later write by the home's epoch; see `Store.hold_home`."""
        self._home = (epoch, lost)

    async def events(
        self, session_id: str, *, epoch: int, after_seq: int, limit: int
    ) -> list[b.EventRow]:
        """Durable events of one epoch after a sequence number."""
        found = [
            row
            for (sid, e, seq), row in sorted(self._rows.events.items())
            if sid == session_id and e == epoch and seq > after_seq
        ]
        return found[:limit]

    def statistics(self) -> dict[str, int]:
        """No handles, no threads."""
        return {"handles": 0, "threads": 0, "writes": len(self.writes), "commits": 0}

    async def aclose(self) -> None:
        """Commit what was accepted. Idempotent."""
        self._closed = True
        if self._task is not None:
            await self._task


def _fence(rows: _Rows, op: b.Fence) -> None:
    found = rows.leases.get(op.key, ("", None))[1]
    if found != op.epoch:
        raise LeaseLost(f"{op.key} has a newer owner (epoch {found}, ours was {op.epoch}).")


def _fence_turn(rows: _Rows, op: b.FenceTurn) -> None:
    found = rows.turns.get(op.id, {}).get("state")
    if op.runs and found == "queued":
        raise LeaseLost(f"Turn {op.id} waits; nothing of it is written before its start.")
    if found not in b.TURN_OPEN:
        raise LeaseLost(f"Turn {op.id} is {found or 'not stored'}; it can write nothing.")


def _take(rows: _Rows, op: b.TakeLease) -> int:
    epoch = rows.leases.get(op.key, ("", 0))[1] + 1
    rows.leases[op.key] = (op.holder, epoch)
    return epoch


def _end(rows: _Rows, op: b.EndLease) -> None:
    if rows.leases.get(op.key, ("", 0))[1] == op.epoch:
        rows.leases[op.key] = ("", op.epoch)


def _insert_session(rows: _Rows, op: b.InsertSession) -> None:
    if op.row.id in rows.sessions:
        raise StoreError("The store refused InsertSession: the id is taken.")
    rows.sessions[op.row.id] = msgspec.structs.asdict(op.row)
    rows.leases[f"session:{op.row.id}"] = (op.holder, 1)


def _patch_session(rows: _Rows, op: b.PatchSession) -> int:
    if (row := rows.sessions.get(op.id)) is None:
        return 0
    settings = {**row["settings"], **op.changes.get("settings", {})}
    row.update(op.changes, settings=settings)
    return 1


def _tag(rows: _Rows, op: b.TagSession) -> tuple[str, ...] | None:
    row = rows.sessions.get(op.id)
    if row is None:
        return None
    row["tags"] = b.with_tags(row["tags"], op)
    return tuple(row["tags"])


def _delete_session(rows: _Rows, op: b.DeleteSession) -> bool:
    key = f"session:{op.id}"
    rows.items = {k: v for k, v in rows.items.items() if k[0] != op.id}
    rows.events = {k: v for k, v in rows.events.items() if k[0] != op.id}
    rows.turns = {k: v for k, v in rows.turns.items() if v["session_id"] != op.id}
    rows.approvals = {k: v for k, v in rows.approvals.items() if v["session_id"] != op.id}
    rows.notes = {k: v for k, v in rows.notes.items() if v["session_id"] != op.id}
    rows.ends = {k: v for k, v in rows.ends.items() if k[0] != op.id}
    if key in rows.leases:
        rows.leases[key] = ("", rows.leases[key][1] + 1)
    return rows.sessions.pop(op.id, None) is not None


def _unused_since(rows: _Rows, before: float, status: tuple[str, ...] = ("closed",)) -> list[str]:
    closed = [row for row in rows.sessions.values() if row["status"] in status]
    waits = {row["session_id"] for row in rows.turns.values() if row["state"] == "queued"}
    waits |= {row.session_id for row in rows.ends.values()}
    unused = [row for row in closed if row["updated_at"] < before and row["id"] not in waits]
    return [str(row["id"]) for row in sorted(unused, key=lambda row: row["updated_at"])]


def _prune_sessions(rows: _Rows, op: b.PruneSessions) -> list[str]:
    if op.empty:
        unused = _unused_since(rows, op.before, ("closed", "idle"))
        kept = {name for name in unused if b.SessionRow(**rows.sessions[name]).said}
    else:
        unused = _unused_since(rows, op.before)
        kept = {name for name in unused if rows.sessions[name]["pinned"]}
    found = [name for name in unused if name not in kept][: op.limit]
    return [name for name in found if _delete_session(rows, b.DeleteSession(name))]


def _prune_events(rows: _Rows, op: b.PruneEvents) -> int:
    some = {key[0] for key in rows.events}
    found = [name for name in _unused_since(rows, op.before) if name in some][: op.limit]
    rows.events = {key: row for key, row in rows.events.items() if key[0] not in found}
    return len(found)


def _insert_turn(rows: _Rows, op: b.InsertTurn) -> None:
    if op.row.session_id not in rows.sessions:
        raise StoreError("The store refused InsertTurn: it is nobody's.")
    taken = {(row["session_id"], row["key"]) for row in rows.turns.values() if row["key"]}
    if (op.row.session_id, op.row.key) in taken:
        raise StoreError("The store refused InsertTurn: its key is taken.")
    rows.turns[op.row.id] = msgspec.structs.asdict(op.row)


def _patch_turn(rows: _Rows, op: b.PatchTurn) -> int:
    row = rows.turns.get(op.id)
    if row is None or row["state"] not in b.TURN_OPEN:
        return 0
    row.update(op.changes)
    return 1


def _drop_items(rows: _Rows, op: b.DropItems) -> int:
    gone = [key for key in rows.items if key[0] == op.session_id and key[1] >= op.first]
    for key in gone:
        del rows.items[key]
    if session := rows.sessions.get(op.session_id):
        session["message_count"] -= len(gone)
    return len(gone)


def _append_item(rows: _Rows, op: b.AppendItem) -> None:
    key = (op.session_id, op.item.seq)
    if key in rows.items or op.session_id not in rows.sessions:
        raise StoreError("The store refused AppendItem: the place is taken or nobody's.")
    rows.items[key] = op.item
    rows.sessions[op.session_id]["message_count"] += 1


def _append_event(rows: _Rows, op: b.AppendEvent) -> int:
    if op.session_id not in rows.sessions:
        raise StoreError("The store refused AppendEvent: it is nobody's.")
    event = op.event
    seqs = [s for (sid, e, s) in rows.events if sid == op.session_id and e == event.epoch]
    seq = max(seqs, default=0) + 1
    rows.events[op.session_id, event.epoch, seq] = msgspec.structs.replace(event, seq=seq)
    return seq


def _insert_approval(rows: _Rows, op: b.InsertApproval) -> None:
    if op.row.session_id not in rows.sessions:
        raise StoreError("The store refused InsertApproval: it is nobody's.")
    rows.approvals[op.row.id] = msgspec.structs.asdict(op.row)


def _decide(rows: _Rows, op: b.DecideApproval) -> int:
    row = rows.approvals.get(op.id)
    if row is None or row["decision"]:
        return 0
    row.update(decision=op.decision, decided_at=op.at)
    return 1


def _insert_end(rows: _Rows, op: b.InsertEnd) -> None:
    epoch = rows.leases[f"session:{op.session_id}"][1]
    if (op.session_id, epoch) in rows.ends:
        raise StoreError("The store refused InsertEnd: there is one.")
    rows.ends[op.session_id, epoch] = b.EndRow(op.session_id, epoch, op.reason, op.at)


def _start_end(rows: _Rows, op: b.StartEnd) -> None:
    row = rows.ends.get((op.session_id, op.epoch))
    if row is None or row.started_at:
        raise LeaseLost(f"The end of session {op.session_id} was taken up already.")
    rows.ends[op.session_id, op.epoch] = msgspec.structs.replace(row, started_at=op.at)


def _finish_end(rows: _Rows, op: b.FinishEnd) -> None:
    rows.ends.pop((op.session_id, op.epoch), None)


def _end_idle(rows: _Rows, op: b.EndIdle) -> bool:
    row, key = rows.sessions.get(op.session_id), f"session:{op.session_id}"
    if row is None or row["status"] != "idle":
        return False
    row.update(status="closed", reason=op.reason)
    rows.leases[key] = ("", rows.leases[key][1] + 1)
    if op.hook:
        _insert_end(rows, b.InsertEnd(op.session_id, op.reason, op.at))
    return True


def _insert_note(rows: _Rows, op: b.InsertNote) -> None:
    if op.row.session_id not in rows.sessions:
        raise StoreError("The store refused InsertNote: it is nobody's.")
    rows.notes[op.row.id] = msgspec.structs.asdict(op.row)


def _deliver_notes(rows: _Rows, op: b.DeliverNotes) -> None:
    waiting = [n for n in rows.notes.values() if n["id"] in op.ids and not n["delivered_at"]]
    if len(waiting) < len(op.ids):
        raise LeaseLost(f"Of the notes {', '.join(op.ids)} some were delivered already.")
    for row in waiting:
        row.update(delivered_at=op.at)


def _take_home(rows: _Rows, op: b.TakeHome) -> tuple[int, b.HomeRow | None]:
    before, now = rows.home, time.time()
    if before and before.expires_at > now and before.epoch != op.over:
        raise LeaseLost(f"The home is held (epoch {before.epoch}).")
    epoch = before.epoch + 1 if before else 1
    rows.home = b.HomeRow(op.holder, epoch, now, now, now + op.lease_s)
    return epoch, before


def _renew_home(rows: _Rows, op: b.RenewHome) -> None:
    if rows.home is None or rows.home.epoch != op.epoch:
        raise LeaseLost("The home has another holder.")
    now = time.time()
    rows.home = msgspec.structs.replace(rows.home, renewed_at=now, expires_at=now + op.lease_s)


def _end_home(rows: _Rows, op: b.EndHome) -> None:
    if rows.home is not None and rows.home.epoch == op.epoch:
        rows.home = msgspec.structs.replace(rows.home, holder="", expires_at=0.0)


def _mark(rows: _Rows, op: b.MarkInterrupted) -> int:
    marked = 0
    for row in rows.turns.values():
        if row["state"] == "running" and op.session_id in ("", row["session_id"]):
            row.update(marked_at=max(op.at, row["started_at"]))
            marked += 1
    return marked


def _take_mark(rows: _Rows, op: b.TakeMark) -> None:
    row = rows.turns.get(op.id)
    if row is None or not row["marked_at"]:
        raise LeaseLost(f"Turn {op.id} is not marked as interrupted, or its mark was taken.")
    row.update(marked_at=0.0)


def _revoke(rows: _Rows, op: b.RevokeApproval) -> int:
    row = rows.approvals.get(op.id)
    if row is None or row["decision"] != "session":
        return 0
    row.update(decision="session (revoked)", decided_at=op.at)
    return 1


def _settle(rows: _Rows, op: b.SettleLeftovers) -> dict[str, int]:
    turns = sessions = asked = 0

    def chosen(row: dict[str, Any], key: str = "session_id") -> bool:
        return op.session_id in ("", row[key])

    for row in filter(chosen, rows.turns.values()):
        if row["state"] == "running" or (row["state"] == "queued" and not op.keep_queued):
            state = "interrupted" if row["state"] == "running" else "refused"
            row.update(state=state, ended_at=op.at, cause=op.reason)
            turns += 1
    for row in filter(chosen, rows.approvals.values()):
        if not row["decision"]:
            row.update(decision=f"void ({op.reason})", decided_at=op.at)
            asked += 1
    if op.session_id:
        return {"turns": turns, "sessions": 0, "approvals": asked}
    for row in rows.sessions.values():
        if row["status"] == "open":
            if op.hook:
                _insert_end(rows, b.InsertEnd(row["id"], op.reason, op.at))
            row.update(status="closed", reason=op.reason)
            sessions += 1
    rows.leases = {key: ("", epoch) for key, (_, epoch) in rows.leases.items()}
    return {"turns": turns, "sessions": sessions, "approvals": asked}


_APPLY: dict[type, Callable[[_Rows, Any], Any]] = {
    b.Fence: _fence,
    b.FenceTurn: _fence_turn,
    b.TakeLease: _take,
    b.EndLease: _end,
    b.InsertSession: _insert_session,
    b.PatchSession: _patch_session,
    b.TagSession: _tag,
    b.DeleteSession: _delete_session,
    b.PruneSessions: _prune_sessions,
    b.PruneEvents: _prune_events,
    b.InsertTurn: _insert_turn,
    b.PatchTurn: _patch_turn,
    b.DropItems: _drop_items,
    b.AppendItem: _append_item,
    b.AppendEvent: _append_event,
    b.InsertEnd: _insert_end,
    b.StartEnd: _start_end,
    b.FinishEnd: _finish_end,
    b.EndIdle: _end_idle,
    b.InsertNote: _insert_note,
    b.DeliverNotes: _deliver_notes,
    b.InsertApproval: _insert_approval,
    b.DecideApproval: _decide,
    b.RevokeApproval: _revoke,
    b.TakeHome: _take_home,
    b.RenewHome: _renew_home,
    b.EndHome: _end_home,
    b.MarkInterrupted: _mark,
    b.TakeMark: _take_mark,
    b.SettleLeftovers: _settle,
    **OUTSIDE,
}
