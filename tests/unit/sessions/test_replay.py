"""A snapshot of a session in which much happens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tenure.conversation import Message
from tenure.sessions.replay import TRIES_MAX, messages_of
from tenure.store.base import ItemRow


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
