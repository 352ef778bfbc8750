"""SQLite: group commit, failures, migrations, handles, and the log that must not vanish."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from contextlib import closing

import msgspec
import pytest
import sqlalchemy as sa

from tenure.conversation import Message
from tenure.errors import SchemaTooNew, StoreError, StoreFull
from tenure.store import base as b
from tenure.store.revision import REVISION, look
from tenure.store.sqlite import READERS_MAX, SqliteStore, open_sqlite, prepare

SID = "20260101_000000_00000001"


def row(sid=SID):
    return b.SessionRow(sid, "", "/", "m", "t", "open", "", 1.0, 1.0)


def event():
    return b.AppendEvent(SID, b.EventRow(1, 0, "x", b"{}", 1.0))


@pytest.fixture
async def path(tmp_path):
    return tmp_path / "t.db"


@pytest.fixture
async def store(path, tmp_path):
    made = open_sqlite(path, prepare(path, tmp_path / "backups"))
    await made.write(b.InsertSession(row(), "me"))
    yield made
    await made.aclose()


async def test_a_file_whose_maker_was_killed_before_its_first_transaction_is_a_fresh_one(tmp_path):
    path = tmp_path / "t.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode=WAL")  # what comes first, outside of any transaction
    assert path.stat().st_size > 0
    assert look(path) is None
    store = open_sqlite(path, prepare(path, tmp_path / "backups"))
    await store.write(b.InsertSession(row(), "me"))
    await store.aclose()
    assert look(path) == REVISION
    assert not (tmp_path / "backups").exists()


async def test_writes_that_wait_share_one_commit(store):
    before = store.statistics()["commits"]
    await asyncio.wait([store.write(event()) for _ in range(100)])
    assert store.statistics()["commits"] - before < 20
    assert len(await store.events(SID, epoch=1, after_seq=0, limit=200)) == 100


async def test_a_failed_commit_fails_all_its_callers_and_stores_nothing(store):
    def fail(conn, cursor, statement, parameters, context, executemany):
        if statement == "COMMIT":
            raise sqlite3.OperationalError("database or disk is full")

    sa.event.listen(store._engine, "before_cursor_execute", fail)
    writes = [store.write(event()) for _ in range(3)]
    for write in writes:
        with pytest.raises(StoreFull, match="No space"):
            await write
    sa.event.remove(store._engine, "before_cursor_execute", fail)
    assert await store.events(SID, epoch=1, after_seq=0, limit=10) == []
    await store.write(event())
    assert len(await store.events(SID, epoch=1, after_seq=0, limit=10)) == 1


async def test_a_write_that_fails_harms_no_other_of_its_transaction(store):
    before = store.statistics()["commits"]
    writes = [
        store.write(event()),
        store.write(event(), b.InsertSession(row(), "me")),
        store.write(event(), b.Fence(f"session:{SID}", 7)),
        store.write(event()),
    ]
    seqs = []
    for write, error in zip(writes, (None, "refused", "newer owner", None), strict=True):
        if error is None:
            seqs += await write
        else:
            with pytest.raises(StoreError, match=error):
                await write
    assert seqs == [1, 2]
    assert store.statistics()["commits"] - before == 1, "what one turn of the loop wrote"
    assert len(await store.events(SID, epoch=1, after_seq=0, limit=10)) == 2


def new(n: int) -> b.InsertSession:
    sid = f"20260101_000001_{n:08x}"
    title, at = f"the {n}th", float(n)
    found = b.SessionRow(sid, title, "/", "m", "t", "open", "", at, at, settings={"n": n})
    return b.InsertSession(found, f"holder {n}")


@pytest.mark.parametrize("count", [1, 2, 3, 64, 65, 150])
async def test_sessions_created_at_one_moment_each_have_their_own_row_and_lease(store, path, count):
    created = [new(n) for n in range(count)]
    said = [b.ItemRow(1, "", "message", Message("user", one.row.title)) for one in created]
    writes = [
        store.write(one, b.AppendItem(one.row.id, item), event())
        for one, item in zip(created, said, strict=True)
    ]
    assert [(await write)[2] for write in writes] == [*range(1, count + 1)]
    for one, item in zip(created, said, strict=True):
        found = await store.session(one.row.id)
        assert found == msgspec.structs.replace(one.row, message_count=1)
        assert await store.history(one.row.id) == [item]
    with closing(sqlite3.connect(path)) as db:
        leases = "SELECT key, holder, epoch, taken_at FROM leases WHERE holder != 'me' ORDER BY key"
        found = [*db.execute(leases)]
    wanted = [(f"session:{c.row.id}", c.holder, 1, c.row.created_at) for c in created]
    assert found == wanted


async def test_a_session_that_is_there_already_harms_none_created_with_it(store):
    writes = [store.write(one) for one in (new(1), b.InsertSession(row(), "me"), new(2), new(3))]
    done = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(one) for one in done] == [list, StoreError, list, list]
    assert len(await store.sessions(limit=10)) == 4


async def test_what_was_written_is_not_held_any_more(store):
    write = event()
    await store.write(write)
    held = sys.getrefcount(write)
    async with asyncio.timeout(30):
        while held > 2:  # this name, and the argument of the count
            await asyncio.sleep(0.001)
            held = sys.getrefcount(write)


async def test_an_error_of_ours_reaches_its_waiter_and_the_writer_lives_on(store):
    with pytest.raises(Exception, match="colour"):
        await store.write(b.PatchSession(SID, {"colour": "red"}))
    await store.write(event())


async def test_handles_are_bounded_and_closed_by_their_own_threads(store, monkeypatch):
    await asyncio.wait([asyncio.ensure_future(store.session(SID)) for _ in range(200)])
    assert store.statistics()["handles"] <= 1 + READERS_MAX
    assert sum(t.name.startswith("store-") for t in threading.enumerate()) <= 1 + READERS_MAX
    await store.aclose()
    assert not [t for t in threading.enumerate() if t.name.startswith("store-")]


async def test_a_vanished_log_is_noticed_at_the_next_write(store, path):
    await store.write(event())
    path.with_name(path.name + "-wal").unlink()
    with pytest.raises(StoreError, match="write-ahead log"):
        await store.write(event())


async def test_wal_full_and_private(store, path):
    assert path.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def columns(path):
    with closing(sqlite3.connect(path)) as db:
        names = [n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        tables = {n: db.execute(f"PRAGMA table_info({n})").fetchall() for n in names}
        keys = {n: db.execute(f"PRAGMA foreign_key_list({n})").fetchall() for n in names}
        indices = {n: sorted(r[1:3] for r in db.execute(f"PRAGMA index_list({n})")) for n in names}
        return tables, keys, indices


async def test_the_metadata_and_the_migrations_make_the_same_database(tmp_path):
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    from tenure.store.migrations import STEPS
    from tenure.store.revision import KNOWN
    from tenure.store.schema import stamp
    from tenure.store.sqlite import _engine

    prepare(tmp_path / "fresh.db", tmp_path).dispose()
    engine = _engine(tmp_path / "stepped.db")
    with engine.connect() as db:
        with Operations.context(MigrationContext.configure(db)) as op:
            for revision in KNOWN:
                STEPS[revision](op)
        stamp(db, REVISION)
    engine.dispose()
    assert columns(tmp_path / "fresh.db") == columns(tmp_path / "stepped.db")


async def test_an_older_database_is_copied_and_migrated(tmp_path, monkeypatch):
    from tenure.store import migrate, migrations, revision, sqlite  # before anything is replaced

    path = tmp_path / "t.db"
    prepare(path, tmp_path / "backups").dispose()
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO leases VALUES ('k', 'h', 1, 1.0)")
        db.commit()

    def add_column(op):
        op.add_column("leases", sa.Column("note", sa.Text))

    following, known = f"{int(REVISION) + 1:04}", (*revision.KNOWN, f"{int(REVISION) + 1:04}")
    monkeypatch.setattr(revision, "KNOWN", known)
    monkeypatch.setattr(revision, "REVISION", following)
    monkeypatch.setattr(sqlite, "REVISION", following)
    monkeypatch.setitem(migrations.STEPS, following, add_column)
    monkeypatch.setattr(migrate, "KNOWN", known)
    monkeypatch.setattr(migrate, "REVISION", following)
    (tmp_path / "backups").mkdir()
    (tmp_path / "backups" / "t-0001-cut.db.part").write_bytes(b"what a kill has left")
    prepare(path, tmp_path / "backups").dispose()
    assert revision.look(path) == following
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT key, note FROM leases").fetchall() == [("k", None)]
    (copy,) = (tmp_path / "backups").iterdir()
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("SELECT version_num FROM alembic_version").fetchone() == (REVISION,)
        assert db.execute("SELECT key FROM leases").fetchone() == ("k",)


async def test_a_newer_schema_is_refused_untouched(tmp_path):
    path = tmp_path / "t.db"
    prepare(path, tmp_path).dispose()
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE alembic_version SET version_num = '9999'")
        db.commit()
    with pytest.raises(SchemaTooNew, match="newer than this release"):
        look(path)
    with pytest.raises(SchemaTooNew):
        prepare(path, tmp_path)


async def test_a_file_that_is_no_database_is_refused_in_a_sentence(tmp_path):
    path = tmp_path / "t.db"
    path.write_bytes(b"not a database, but long enough to look at" * 50)
    with pytest.raises(StoreError, match="cannot be read"):
        prepare(path, tmp_path)


async def test_a_write_from_a_stale_history_is_kept_apart(store: SqliteStore):
    item = b.AppendItem(SID, b.ItemRow(1, "t", "message", Message("user", "ä€𝄞\n")))
    await store.write(item)
    (found,) = await store.history(SID)
    assert found.message.text == "ä€𝄞\n"
