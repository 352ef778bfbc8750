"""Case 27: one process writes to a home; a successor's epoch is checked inside each transaction."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest

from tenure.conversation import Message
from tenure.errors import LeaseLost
from tenure.store import base as b
from tenure.store.holding import Held, give_up_home, keep_home, settle, take_home
from tenure.store.sqlite import open_sqlite, prepare
from tenure.testing.clock import settle as let_run
from tenure.testing.waiting import until

SID = "20260101_000000_00000001"
KEY = f"session:{SID}"


class Rivals:
    """Two stores on one database, as two gateways have them."""

    def __init__(self, folder) -> None:
        self.path = folder / "tenure.db"
        self.stores = []
        self.told: list[str] = []

    async def take(self, name: str, lease_s: float, *, gone: bool = False) -> tuple:
        store = open_sqlite(self.path, prepare(self.path, self.path.parent / "backups"))
        self.stores.append(store)
        held = await take_home(
            store, name, lease_s, is_gone=lambda _: gone, lost=lambda: self.told.append(name)
        )
        return store, held

    async def aclose(self) -> None:
        for store in self.stores:
            await store.aclose()

    def count(self, table: str) -> int:
        with closing(sqlite3.connect(self.path)) as db:
            return db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


@pytest.fixture
async def rivals(tmp_path):
    rivals = Rivals(tmp_path)
    yield rivals
    await rivals.aclose()


def a_session():
    return b.SessionRow(SID, "", "/", "m", "t", "open", "", 1.0, 1.0)


def an_item(seq: int):
    return b.AppendItem(SID, b.ItemRow(seq, "t1", "message", Message("user", "hi")))


async def test_a_second_one_is_refused_while_the_first_renews(rivals):
    first, _ = await rivals.take("first", 60.0)
    await first.write(b.InsertSession(a_session(), "first"))
    with pytest.raises(LeaseLost, match="held"):
        await rivals.take("second", 60.0)
    await first.write(b.Fence(KEY, 1), an_item(1))
    assert rivals.told == []
    assert (await first.session(SID)).status == "open", "nothing of the living one was touched"


async def test_after_the_expiry_a_successor_fences_a_living_holder_off(rivals):
    first, held = await rivals.take("first", 0.0)
    await first.write(b.InsertSession(a_session(), "first"), an_item(1))
    second, after = await rivals.take("second", 60.0)
    assert after.epoch == held.epoch + 1
    waiting = [first.write(b.Fence(KEY, 1), an_item(n)) for n in (2, 3)]
    for write in waiting:
        with pytest.raises(LeaseLost, match="another gateway"):
            await write
    assert rivals.count("items") == 1
    assert rivals.told == ["first"]
    await second.write(an_item(2))
    assert rivals.count("items") == 2


async def test_a_late_renewal_or_end_of_the_first_changes_nothing(rivals, clock):
    first, held = await rivals.take("first", 0.0)
    second, _ = await rivals.take("second", 60.0)
    await give_up_home(first, held.epoch)
    renewing = asyncio.create_task(keep_home(first, held.epoch, 60.0, clock))
    await let_run()
    clock.advance(30.0)
    await until(lambda: renewing.done() or clock.due_in(30.0))
    assert renewing.done(), "it ends by itself"
    assert (await second.home()).holder == "second"


async def test_the_lease_is_renewed_twice_in_its_time_and_no_oftener(rivals, clock):
    store, held = await rivals.take("first", 90.0)
    renewing = asyncio.create_task(keep_home(store, held.epoch, 90.0, clock))
    written = store.statistics()["writes"]
    await let_run()
    assert clock.due_in(45.0)
    for _ in range(4):
        await until(lambda: clock.due_in(45.0), "it waits for the next one")
        clock.advance(44.0)
        await let_run()
        clock.advance(1.0)
        async with asyncio.timeout(30):
            while store.statistics()["writes"] == written:
                await asyncio.sleep(0.001)
        assert store.statistics()["writes"] == written + 1
        written += 1
        await let_run(100)
    renewing.cancel()
    await asyncio.wait({renewing})


async def test_what_the_holder_before_ran_is_marked_as_of_its_last_sign_of_life(rivals):
    first, _ = await rivals.take("first", 60.0)
    turn = b.TurnRow("t1", SID, 1, "running", "p", 1.0, started_at=1.0)
    await first.write(b.InsertSession(a_session(), "first"), b.InsertTurn(turn))
    seen = (await first.home()).renewed_at
    second, held = await rivals.take("second", 60.0, gone=True)
    assert held == Held(2, seen)
    assert await settle(second, held, 5.0) == {"turns": 1, "sessions": 1, "approvals": 0}
    (row,) = await second.turns(SID)
    assert (row.state, row.cause, row.marked_at) == ("interrupted", "crash", seen)
