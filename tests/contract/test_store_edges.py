"""The contract of every store at its edges: whose a row is, how many are read, which come first."""

from __future__ import annotations

import pytest

from tenure.conversation import Message
from tenure.errors import StoreError
from tenure.store import base as b


def sid(n):
    return f"20260101_000000_0000000{n}"


def a_session(n):
    row = b.SessionRow(sid(n), "", "/", "m", "t", "open", "", 1.0, 1.0)
    return b.InsertSession(row, "me")


def a_turn(name, n, state="running", at=1.0, **more):
    return b.InsertTurn(b.TurnRow(name, sid(n), 1, state, "p", at, **more))


@pytest.fixture
async def store(store):
    await store.write(a_session(1), a_session(2), a_session(3))
    return store


async def test_what_was_taken_back_does_not_count_as_said(store):
    items = [b.ItemRow(n, "t", "message", Message("user", "hi")) for n in (1, 2, 3)]
    await store.write(*(b.AppendItem(sid(1), item) for item in items))
    assert await store.write(b.DropItems(sid(1), 2)) == [2]
    assert (await store.session(sid(1))).message_count == 1
    await store.write(b.DropItems(sid(1), 1))
    assert not (await store.session(sid(1))).said


async def test_what_runs_in_one_session_is_marked_there(store):
    await store.write(a_turn("t1", 1), a_turn("t2", 2))
    assert await store.write(b.MarkInterrupted(5.0, sid(1))) == [1]
    assert [turn.marked_at for turn in await store.turns(sid(2))] == [0.0]


async def test_a_key_is_of_one_turn_of_its_session(store):
    await store.write(a_turn("t0", 1), a_turn("t1", 1), a_turn("t2", 2, key="k"))
    assert await store.turn_by_key(sid(1), "k") is None
    assert await store.turn_by_key(sid(1), "") is None, "turns without a key have none"
    await store.write(a_turn("t3", 1, key="k"))
    assert (await store.turn_by_key(sid(1), "k")).id == "t3"
    with pytest.raises(StoreError):
        await store.write(a_turn("t4", 1, key="k"))


async def test_what_waits_longest_is_taken_up_first(store):
    waits = ((1, 5.0), (2, 3.0), (3, 9.0))
    await store.write(*(a_turn(f"t{n}", n, "queued", at) for n, at in waits))
    await store.write(a_turn("late", 2, "queued", 99.0))
    assert [found.session_id for found in await store.unfinished()] == [sid(2), sid(1), sid(3)]


async def test_events_are_read_by_epoch_and_no_more_than_asked_for(store):
    for epoch in (1, 2):
        rows = (b.EventRow(epoch, 0, f"e{epoch}{n}", b"{}", 1.0) for n in range(5))
        await store.write(*(b.AppendEvent(sid(1), row) for row in rows))
    found = await store.events(sid(1), epoch=2, after_seq=1, limit=3)
    assert [(row.seq, row.type) for row in found] == [(2, "e21"), (3, "e22"), (4, "e23")]
    assert await store.events(sid(2), epoch=2, after_seq=0, limit=3) == []


async def test_a_draft_gives_up_what_is_its_own(store):
    await store.write(*(b.HoldUploads(sid(n), ("a", "b")) for n in (1, 2)))
    await store.write(b.HoldUploads(sid(1), ("b", "a")))  # again, which is fine
    assert await store.write(b.ReleaseUploads(sid(1), ("a",))) == [1]
    assert await store.uploads() == {"a": (0,), "b": (0,)}
    assert await store.uploads(sid(1)) == {"b": (0,)}


async def test_an_end_is_that_of_one_incarnation(store):
    await store.write(b.InsertEnd(sid(1), "closed", 5.0))
    await store.write(
        b.TakeLease(f"session:{sid(1)}", "me", 6.0), b.InsertEnd(sid(1), "again", 7.0)
    )
    await store.write(b.StartEnd(sid(1), 2, 8.0))
    first, second = b.EndRow(sid(1), 1, "closed", 5.0), b.EndRow(sid(1), 2, "again", 7.0, 8.0)
    assert await store.ends() == [first, second]
    await store.write(b.FinishEnd(sid(1), 2))
    assert await store.ends() == [first]
