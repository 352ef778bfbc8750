"""A store that can have no handle for a while: every waiter is told, and it works again later."""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy as sa

from tenure.errors import StoreError
from tenure.store import base as b
from tenure.store.sqlite import BATCH_MAX, SqliteStore, prepare
from tenure.testing.waiting import until


class Scarce:
    """An engine that gives out no handle for the first `refusals` times."""

    def __init__(self, engine: sa.Engine, refusals: int) -> None:
        self.engine = engine
        self.refusals = refusals

    def connect(self) -> sa.Connection:
        if self.refusals:
            self.refusals -= 1
            raise sa.exc.OperationalError("open", {}, Exception("unable to open database file"))
        return self.engine.connect()

    def dispose(self) -> None:
        self.engine.dispose()


async def test_a_writer_without_a_handle_tells_and_tries_again(tmp_path):
    path = tmp_path / "t.db"
    store = SqliteStore(path, Scarce(prepare(path, tmp_path / "backups"), 1))
    with pytest.raises(StoreError, match="cannot be opened"):
        await store.write(b.TakeLease("k", "me", 1.0))
    again = store.write(b.TakeLease("k", "me", 1.0))
    await until(lambda: again.done() or not store._writer.is_alive())
    assert again.done() and again.result() == [1]
    await store.aclose()


async def test_a_reader_without_a_handle_tells_and_tries_again(tmp_path):
    path = tmp_path / "t.db"
    scarce = Scarce(prepare(path, tmp_path / "backups"), 0)
    store = SqliteStore(path, scarce)
    await store.write(b.TakeLease("k", "me", 1.0))  # the writer has its handle
    scarce.refusals = 1
    with pytest.raises(StoreError, match="cannot be opened"):
        await store.session("x")
    again = asyncio.ensure_future(store.session("x"))
    await until(lambda: again.done() or not store._readers[0].is_alive())
    assert again.done() and again.result() is None
    await store.aclose()


async def test_a_store_that_never_had_a_handle_closes(tmp_path):
    path = tmp_path / "t.db"
    store = SqliteStore(path, Scarce(prepare(path, tmp_path / "backups"), 99))
    writes = [store.write(b.TakeLease("k", "me", 1.0)) for _ in range(3)]
    async with asyncio.timeout(30):
        await store.aclose()
    for write in writes:
        with pytest.raises(StoreError):
            await write


async def test_three_thousand_writes_that_wait_are_all_written_by_the_close(tmp_path):
    path = tmp_path / "t.db"
    store = SqliteStore(path, prepare(path, tmp_path / "backups"))
    writes = [store.write(b.TakeLease(f"k{n % 50}", "me", 1.0)) for n in range(3_000)]
    await store.aclose()
    assert sum(write.result()[0] for write in writes) == 50 * sum(range(1, 61))
    assert store.statistics()["commits"] >= 3_000 // BATCH_MAX, "none waits for all the others"
