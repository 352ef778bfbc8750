"""A snapshot of a session in which much happens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tenure.conversation import Message
from tenure.protocol.messages import EventParams
from tenure.sessions.replay import TRIES_MAX, messages_of, missed_since
from tenure.sessions.state import SessionState, shown
from tenure.store.base import EventRow, ItemRow


def busy_for(reads: int) -> Any:
    """A session in which something happens during the first `reads` readings of its history."""
    journal = SimpleNamespace(last_seq=0)

    async def history(_session_id):
        nonlocal reads
        assert reads > -TRIES_MAX, "it reads on and on"
        journal.last_seq += reads > 0
        reads -= 1
        return [ItemRow(1, "t1", "message", Message("user", f"as of {journal.last_seq}"))]

    return SimpleNamespace(
        id="s", journal=journal, ports=SimpleNamespace(store=SimpleNamespace(history=history))
    )


async def test_what_happens_during_the_reading_is_read_again():
    found = await messages_of(busy_for(2))
    assert (found.seq, found.messages[0]["text"], found.turn_id) == (2, "as of 2", "t1")


async def test_whoever_comes_late_is_not_kept_waiting_by_it():
    found = await messages_of(busy_for(2 * TRIES_MAX))
    assert found.seq < TRIES_MAX, "what comes twice changes nothing; what is missing would"


async def test_where_nothing_happens_it_is_read_once():
    session = busy_for(0)
    read, reads = session.ports.store.history, []

    async def history(session_id):
        reads.append(session_id)
        return await read(session_id)

    session.ports.store.history = history
    await messages_of(session)
    assert reads == ["s"]


@pytest.mark.parametrize(("limit", "seqs", "more"), [(2, [1, 2], True), (3, [1, 2, 3], False)])
async def test_what_the_ring_has_no_more_is_in_the_store(limit, seqs, more):
    """The store has the first two of three, the ring what comes after the second."""
    read = []

    async def events(_session_id, *, epoch, after_seq, limit):
        read.append((epoch, after_seq, limit))
        return [EventRow(1, n, "message.start", b"{}", 0.0) for n in (1, 2)]

    third = EventParams("message.start", "s", {}, 1, 3)
    ring = SimpleNamespace(since=lambda seq: [third] if seq == 2 else None)
    session = SimpleNamespace(
        id="s", journal=SimpleNamespace(epoch=1, last_seq=3, ring=ring),
        ports=SimpleNamespace(store=SimpleNamespace(events=events)),
    )  # fmt: skip
    found = await missed_since(session, 1, 0, limit)
    assert ([event.seq for event in found.events], found.more) == (seqs, more)
    assert read == [(1, 0, limit + 1)], "what the ring has is not read"


def test_the_state_in_a_word():
    assert shown(SessionState.RUNNING, asking=True) == "waiting"
    assert shown(SessionState.RUNNING, asking=False) == SessionState.RUNNING.value
    assert shown(SessionState.IDLE, asking=True) == "idle"
    for state in (SessionState.FAILED, SessionState.UNBUILT):
        assert shown(state, asking=False) == "idle"
