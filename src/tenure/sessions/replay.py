"""What a client that comes late gets: exactly the events that it missed, or a snapshot.

A cursor (epoch, seq) means something inside its session and epoch only. The ring answers from
memory; the store stands behind it. What cannot be served exactly is said to be a gap: a partial
replay never passes for a complete one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.protocol.messages import EventParams
from tenure.sessions.actor import Session
from tenure.sessions.projection import page_of
from tenure.store.base import EventRow, ItemRow

REPLAY_MAX = 2_000
"""Missed events that are sent one by one; whoever missed more is faster with a snapshot."""
TRIES_MAX = 5


class Missed(msgspec.Struct, frozen=True):
    """The events after a cursor, or why they cannot be had.

    Attributes:
        events: all of them, in order.
        gap: empty, or the reason in a sentence.
        more: there are further ones, which `limit` left out.
    """

    events: Sequence[EventParams] = ()
    gap: str = ""
    more: bool = False


async def missed_since(session: Session, epoch: int, seq: int, limit: int = REPLAY_MAX) -> Missed:
    """The events of a live session after a cursor, up to this very moment.

    Args:
        session: whose.
        epoch: the cursor's epoch.
        seq: the number of the last event that is known there; 0 for none.
        limit: how many at the most.

    Raises:
        StoreError: the log cannot be read.
    """
    journal = session.journal
    if epoch != journal.epoch or not 0 <= seq <= journal.last_seq:
        return Missed(gap="The session has been opened anew since, so its events count anew.")
    found: list[EventParams] = []
    last = seq
    while last < journal.last_seq and len(found) <= limit:
        near = journal.ring.since(last)
        if near is None:
            near = await _from_store(session, last, limit + 1)
        if not near or near[0].seq != last + 1:
            return Missed(gap="Some of the events after this one are not kept any more.")
        found += near
        last = near[-1].seq
    return Missed(found[:limit], more=len(found) > limit)


async def _from_store(session: Session, after: int, limit: int) -> list[EventParams]:
    rows = await session.ports.store.events(
        session.id, epoch=session.journal.epoch, after_seq=after, limit=limit
    )
    return [_event(session.id, row) for row in rows]


def _event(session_id: str, row: EventRow) -> EventParams:
    payload = msgspec.json.decode(row.payload)
    return EventParams(row.type, session_id, payload, row.epoch, row.seq)


class History(msgspec.Struct, frozen=True):
    """Stored messages: the newest that fit, how many earlier ones do not, and as of which event."""

    messages: list[dict[str, Any]] = []
    omitted: int = 0
    seq: int = 0
    turn_id: str = ""
    """The turn of the last one."""


async def messages_of(session: Session) -> History:
    """The stored history, and the number of the last event that is surely contained in it.

    Read again while events go by, so that the two belong together; a few times at the most, since
    what comes twice changes nothing.
    """
    journal = session.journal
    rows: list[ItemRow] = []
    seq = journal.last_seq
    for _ in range(TRIES_MAX):
        seq = journal.last_seq
        rows = await session.ports.store.history(session.id)
        if seq == journal.last_seq:
            break
    messages, omitted = page_of(rows)
    return History(messages, omitted, seq, rows[-1].turn_id if rows else "")


def snapshot_of(session: Session, history: History) -> dict[str, Any]:
    """What there is to know of a session now, beside its info; taken in one step."""
    return {
        "session_id": session.id,
        "stored_session_id": session.id,
        "session_key": session.id,
        "resumed": session.id,
        "message_count": session.journal.count,
        "messages": history.messages,
        "messages_omitted": history.omitted,
        "running": session.current is not None,
        "status": session.status,
        "started_at": session.created_at,
        "inflight": _inflight(session, history),
        "epoch": session.journal.epoch,
        "pending_approval": session.questions.pending_approval,
        "pending_questions": session.questions.pending,
    }


def _inflight(session: Session, history: History) -> dict[str, Any] | None:
    """The running turn. Its prompt is told here or among the messages: clients show both."""
    found, turn = session.inflight(), session.current
    if found is not None and turn is not None and turn.id == history.turn_id:
        found["user"] = ""
    return found
