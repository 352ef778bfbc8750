"""The full-text index agrees with the history, whatever was written, dropped and deleted."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing

import pytest

from tenure.conversation import Message
from tenure.errors import BadValue, StoreError
from tenure.store import base as b, finding
from tenure.store.sqlite import _engine, open_sqlite, prepare
from tenure.store.terms import terms_of

WORDS = [
    "alpha",
    "beta",
    "naïve",
    "日本",
    "x" * 300,
    "nul\0inside",
    "tab\tand\nline",
    "🦜",
    "'); --",
]


def sid(n):
    return f"20260101_000000_{n:08x}"


def check(path):
    """The index is sound, and has exactly the entries that have a text."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)")
        numbered = db.execute("SELECT session_id, seq FROM texts ORDER BY 1, 2").fetchall()
        indexed = [row for (row,) in db.execute("SELECT id FROM search_docsize ORDER BY id")]
        with_text = db.execute(
            "SELECT session_id, seq FROM items WHERE kind = 'message' "
            "AND json_extract(CAST(message AS TEXT), '$.text') <> '' ORDER BY 1, 2"
        ).fetchall()
        assert numbered == with_text
        assert indexed == [row for (row,) in db.execute("SELECT id FROM texts ORDER BY id")]


async def test_after_anything_that_can_be_done_to_a_history(tmp_path):
    path, pick = tmp_path / "t.db", random.Random(7)
    store = open_sqlite(path, prepare(path, tmp_path / "b"))
    last = dict.fromkeys(range(8), 0)
    for n in last:
        row = b.SessionRow(sid(n), "", "/", "", "t", "open", "", 0.0, 0.0)
        await store.write(b.InsertSession(row, "me"))
    for step in range(300):
        n = pick.choice(list(last))
        doing = pick.random()
        if doing < 0.75:
            text = " ".join(pick.choices(WORDS, k=pick.randrange(0, 60)))
            text *= 40 if step % 50 == 0 else 1  # longer than what is indexed of one entry
            last[n] += 1
            message = Message(pick.choice(["user", "assistant", "tool"]), text)
            kind = "summary" if doing < 0.05 else "message"
            await store.write(b.AppendItem(sid(n), b.ItemRow(last[n], "t", kind, message)))
        elif doing < 0.95:
            first = pick.randint(1, last[n] + 1)
            await store.write(b.DropItems(sid(n), first))
            last[n] = first - 1
        elif len(last) > 3:
            await store.write(b.DeleteSession(sid(n)))
            del last[n]
    await store.search(terms_of("alpha*"), only=b.Sieve(), limit=9)
    await store.aclose()
    check(path)


async def test_older_history_is_indexed_when_the_database_is_migrated(tmp_path, monkeypatch):
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    from tenure.store.migrations import STEPS
    from tenure.store.revision import KNOWN
    from tenure.store.schema import stamp

    path = tmp_path / "t.db"
    engine = _engine(path)
    before = KNOWN[: KNOWN.index("0005")]
    with engine.connect() as db:
        with Operations.context(MigrationContext.configure(db)) as op:
            for revision in before:
                STEPS[revision](op)
        stamp(db, before[-1])
        db.exec_driver_sql(
            "INSERT INTO sessions (id, title, cwd, model, source, status, reason, created_at, "
            f"updated_at, preview, message_count, settings) VALUES ('{sid(1)}', 'Old', '/', '', "
            "'t', 'closed', '', 1, 1, '', 2, '{}')"
        )
        for seq, text in enumerate(
            ('{"role":"user","text":"how to deploy"}', '{"role":"user"}'), 1
        ):
            db.exec_driver_sql(
                "INSERT INTO items (session_id, seq, turn_id, kind, message, replaces) "
                "VALUES (?, ?, 't', 'message', ?, 0)", (sid(1), seq, text.encode()),
            )  # fmt: skip
    engine.dispose()
    store = open_sqlite(path, prepare(path, tmp_path / "backups"))
    (found,) = await store.search(terms_of("deploy"), only=b.Sieve(), limit=9)
    assert (found.session_id, found.title, found.tags) == (sid(1), "Old", ())
    assert await store.write(b.DeleteSession(sid(1))) == [True]
    assert await store.search(terms_of("deploy"), only=b.Sieve(), limit=9) == []
    await store.aclose()
    check(path)


async def test_a_search_that_takes_too_long_is_given_up_and_the_next_one_works(
    tmp_path, monkeypatch
):
    path = tmp_path / "t.db"
    store = open_sqlite(path, prepare(path, tmp_path / "b"))
    row = b.SessionRow(sid(1), "", "/", "", "t", "open", "", 0.0, 0.0)
    items = [
        b.AppendItem(row.id, b.ItemRow(n, "t", "message", Message("user", f"word alpha{n}")))
        for n in range(1, 400)
    ]
    await store.write(b.InsertSession(row, "me"), *items)
    with monkeypatch.context() as patch:
        patch.setattr(finding, "SEARCH_S", -1.0)
        patch.setattr(finding, "STEPS_BETWEEN", 10)
        with pytest.raises(BadValue, match="given up after"):
            await store.search(terms_of("word"), only=b.Sieve(), limit=9)
        assert len(await store.history(row.id)) == 399, "the reader's next reads have no such limit"
    (found,) = await store.search(terms_of("alpha7*"), only=b.Sieve(), limit=9)
    assert found.hits == 11
    await store.aclose()


async def test_a_search_that_fails_is_not_taken_for_a_long_one(tmp_path, monkeypatch):
    path = tmp_path / "t.db"
    store = open_sqlite(path, prepare(path, tmp_path / "b"))
    monkeypatch.setattr(finding, "_MATCHES", "SELECT * FROM colours WHERE :most")
    with pytest.raises(StoreError, match="no such table: colours"):
        await store.search(terms_of("word"), only=b.Sieve(), limit=9)
    await store.aclose()


async def test_what_is_ranked_and_what_is_indexed_of_an_entry_is_bounded(tmp_path, monkeypatch):
    path = tmp_path / "t.db"
    store = open_sqlite(path, prepare(path, tmp_path / "b"))
    long = "word " * 3_200 + "beyond"
    for n in range(1, 5):
        row = b.SessionRow(sid(n), "", "/", "", "t", "open", "", 0.0, 0.0)
        await store.write(b.InsertSession(row, "me"), *(
            b.AppendItem(row.id, b.ItemRow(seq, "t", "message", Message("user", long)))
            for seq in (1, 2, 3)
        ))  # fmt: skip
    assert await store.search(terms_of("beyond"), only=b.Sieve(), limit=9) == []
    assert len(await store.search(terms_of("word"), only=b.Sieve(), limit=2)) == 2
    monkeypatch.setattr(finding, "MATCHES_MAX", 5)
    found = await store.search(terms_of("word"), only=b.Sieve(), limit=9)
    assert sum(one.hits for one in found) == 5
    await store.aclose()
