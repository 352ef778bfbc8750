"""What is forgotten is in no file of the database any more."""

from __future__ import annotations

import sqlite3

import pytest
import sqlalchemy as sa

from tenure.store.base import AcceptMemory, DeleteMemories, InsertMemory, MemoryRow
from tenure.store.sqlite import open_sqlite, prepare

WORD = b"zanzibar"
"""As it stands in the text and, in lower case, in the index."""


@pytest.fixture
async def store(tmp_path):
    engine = prepare(tmp_path / "t.db", tmp_path)
    # What is in the way of the folding is not waited for here.
    sa.event.listen(engine, "connect", lambda raw, _: raw.execute("PRAGMA busy_timeout=0"))
    made = open_sqlite(tmp_path / "t.db", engine)
    yield made
    await made.aclose()


def note(text):
    return InsertMemory(MemoryRow(0, text, "proposed", "agent", "s1", 1.0), 500, 100_000)


def files(tmp_path) -> bytes:
    return b"".join(path.read_bytes() for path in tmp_path.glob("t.db*")).lower()


def other(n):
    """Words of its own, so that the index grows and is merged."""
    return " ".join(f"word{n}x{m}" for m in range(40))


async def fill(store):
    """Among others, so that pages are neither empty nor all its own."""
    for n in range(40):
        await store.write(note(other(n)))
    await store.write(note("The Zanzibar account is closed; zanzibars are no fruit."))
    for n in range(40, 200):
        await store.write(note(other(n)))


async def test_a_deleted_note_leaves_no_trace(store, tmp_path):
    await fill(store)
    assert WORD in files(tmp_path)
    assert await store.write(DeleteMemories((41, 999))) == [[41]]
    assert WORD not in files(tmp_path), "while the database is open"
    assert len(await store.memories()) == 200
    await store.write(note("Later."))
    await store.aclose()
    assert WORD not in files(tmp_path)


async def test_nor_does_what_a_note_said_before(store, tmp_path):
    await fill(store)
    assert await store.write(AcceptMemory(41, 2.0, "The account is closed.")) == [True]
    assert WORD not in files(tmp_path)
    assert [row.id for row in await store.memories() if row.state == "accepted"] == [41]


async def test_a_reader_in_the_way_delays_it_to_the_next_write(store, tmp_path):
    await fill(store)
    reader = sqlite3.connect(tmp_path / "t.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM memories").fetchone()
    await store.write(DeleteMemories((41,)))
    assert WORD in files(tmp_path), "in the log, from which the reader may read yet"
    reader.execute("ROLLBACK")
    reader.close()
    await store.write(note("Later."))
    assert WORD not in files(tmp_path)
