"""The lease of the home: what fails once is asked again, and no end waits for it."""

from __future__ import annotations

import asyncio

from tenure.errors import StoreError
from tenure.store.base import (
    EndHome,
    InsertSession,
    InsertTurn,
    RenewHome,
    SessionRow,
    TurnRow,
)
from tenure.store.holding import Held, give_up_home, keep_home, settle as settle_home, take_home
from tenure.testing.clock import settle
from tenure.testing.store import MemoryStore


async def held() -> MemoryStore:
    store = MemoryStore()
    await take_home(store, "me", 60.0, is_gone=lambda _: False, lost=lambda: None)
    return store


async def test_a_store_that_fails_is_asked_again(clock):
    store = await held()
    renewing = asyncio.create_task(keep_home(store, 1, 60.0, clock))
    store.fail(StoreError("The disk is busy."))
    for _ in range(2):
        await settle()
        clock.advance(30.0)
    await settle()
    assert [type(op) for (op,) in store.writes[1:]] == [RenewHome, RenewHome]
    assert not renewing.done()
    renewing.cancel()
    await asyncio.wait({renewing})


async def test_a_home_that_cannot_be_given_up_harms_no_end():
    store = await held()
    store.fail(StoreError("The disk is full."))
    await give_up_home(store, 1)
    assert store.writes[-1] == (EndHome(1),)


async def test_what_the_holder_before_left_open_is_ended_and_what_it_ran_is_marked():
    store, sid = await held(), "20260101_000000_00000001"
    row = SessionRow(sid, "", "/", "m", "t", "open", "", 1.0, 1.0)
    turns = (
        TurnRow("t1", sid, 1, "running", "p", 1.0),
        TurnRow("t2", sid, 2, "queued", "p", 1.0),
    )
    await store.write(InsertSession(row, "dead"), *map(InsertTurn, turns))
    assert await settle_home(store, Held(1, 3.0), 5.0, hook=True) == {
        "turns": 1, "sessions": 1, "approvals": 0,
    }  # fmt: skip
    found = [(turn.state, turn.cause, turn.marked_at) for turn in await store.turns(sid)]
    assert found == [("interrupted", "crash", 3.0), ("queued", "", 0.0)]
    assert [(end.session_id, end.reason) for end in await store.ends()] == [(sid, "crash")]
