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
from tenure.store import base as b, migrate
from tenure.store.revision import REVISION, look
from tenure.store.sqlite import (
    BUSY_TIMEOUT_MS,
    READERS_MAX,
    SqliteStore,
    _settle,
    _Write,
    open_sqlite,
    prepare,
)
from tenure.testing.clock import settle
from tenure.testing.waiting import PATIENCE_S, until

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


@pytest.mark.parametrize("rolled_back", [False, True])
async def test_a_failed_commit_fails_all_its_callers_and_stores_nothing(store, rolled_back):
    def fail(conn, cursor, statement, parameters, context, executemany):
        if statement == "COMMIT":
            if rolled_back:  # as the library itself does after some errors
                cursor.execute("ROLLBACK")
            raise sqlite3.OperationalError("database or disk is full")

    told = []
    await store.write(b.TakeHome("me", 60.0))
    store.hold_home(1, lambda: told.append("lost"))
    sa.event.listen(store._engine, "before_cursor_execute", fail)
    writes = [store.write(event()) for _ in range(3)]
    for write in writes:
        with pytest.raises(StoreFull, match="No space"):
            await write
    sa.event.remove(store._engine, "before_cursor_execute", fail)
    assert told == [], "the home is ours"
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
    wrong, right = store.write(b.PatchSession(SID, {"colour": "red"})), store.write(event())
    with pytest.raises(StoreError, match="colour"):
        await wrong
    assert await right == [1]


async def test_a_waiter_that_has_left_harms_none_of_the_others():
    loop = asyncio.get_running_loop()
    left, waits = (_Write((), loop.create_future()) for _ in range(2))
    left.future.cancel()
    waits.results = [2]
    _settle([left, waits])
    assert waits.future.result() == [2]


async def test_an_error_of_a_read_reaches_its_waiter_and_the_reader_lives_on(store):
    with pytest.raises(StoreError, match="no such table: colours"):
        await store._read(lambda db: db.exec_driver_sql("SELECT * FROM colours").all())
    for _ in range(3):
        assert await store.session(SID) is not None
    assert store.statistics()["threads"] == 2, "one reads while nobody else does"


async def test_a_read_after_the_close_is_refused(store):
    await store.aclose()
    with pytest.raises(StoreError, match="closed; nothing more is read"):
        await store.session(SID)


async def test_the_close_goes_on_without_whoever_asked_for_it(store):
    asked = asyncio.create_task(store.aclose())
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.wait({asked})
    assert asked.cancelled()
    await store.aclose()
    assert not store._writer.is_alive()


async def test_the_loop_turns_while_the_close_waits_for_a_read_that_nobody_waits_for(store):
    begun, go_on, joined = threading.Event(), threading.Event(), []

    def long_read(_db):
        begun.set()
        go_on.wait(PATIENCE_S)

    reading = asyncio.create_task(store._read(long_read))
    await until(begun.is_set)
    reading.cancel()
    (reader,) = store._readers
    join, reader.join = reader.join, lambda: joined.append(go_on.is_set())
    closing = asyncio.create_task(store.aclose())
    try:
        await until(lambda: not store._writer.is_alive())
        await settle()
        assert joined == [] and not closing.done()
    finally:
        go_on.set()
    await closing
    assert joined == [True]
    join()


def test_the_threads_end_though_the_loop_has_gone(tmp_path):
    path = tmp_path / "t.db"
    engine = prepare(path, tmp_path / "backups")

    async def leave() -> SqliteStore:
        return open_sqlite(path, engine)

    with asyncio.Runner() as runner:
        store = runner.run(leave())
    for _ in range(2):  # one is enough
        store._writes.put(None)
    store._writer.join()


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

    async def of_the_handle(name: str) -> int:
        return await store._read(lambda db: db.exec_driver_sql(f"PRAGMA {name}").scalar_one())

    assert await of_the_handle("synchronous") == 2, "FULL: what is committed survives the power"
    assert await of_the_handle("busy_timeout") == BUSY_TIMEOUT_MS


async def test_nothing_is_left_of_a_session_that_is_deleted(store, path):
    said = b.ItemRow(1, "t1", "message", Message("user", "hi"))
    await store.write(
        event(), b.AppendItem(SID, said), b.InsertTurn(b.TurnRow("t1", SID, 1, "queued", "p", 1.0)),
        b.InsertApproval(b.ApprovalRow("q", SID, "t1", {}, 1.0)), b.HoldUploads(SID, ("d",)),
        b.InsertNote(b.NoteRow("n", SID, "b", "text", 1.0)), b.InsertEnd(SID, "closed", 1.0),
    )  # fmt: skip
    with closing(sqlite3.connect(path)) as db:
        names = [n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        owned = [
            name
            for name in names
            if any(c[1] == "session_id" for c in db.execute(f"PRAGMA table_info({name})"))
            and name not in {"containers", "memories"}  # those outlive it
        ]

        def left() -> list[str]:
            rows = {
                name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in owned
            }
            return [name for name, count in rows.items() if count]

        assert left() == owned
        await store.write(b.DeleteSession(SID))
        assert left() == []


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


def follow(monkeypatch, step) -> str:
    """Let there be a newer revision, made by `step`; its name."""
    from tenure.store import migrations, revision, sqlite  # before anything is replaced

    following = f"{int(REVISION) + 1:04}"
    known = (*revision.KNOWN, following)
    monkeypatch.setattr(revision, "KNOWN", known)
    monkeypatch.setattr(revision, "REVISION", following)
    monkeypatch.setattr(sqlite, "REVISION", following)
    monkeypatch.setitem(migrations.STEPS, following, step)
    monkeypatch.setattr(migrate, "KNOWN", known)
    monkeypatch.setattr(migrate, "REVISION", following)
    return following


async def test_an_older_database_is_copied_and_migrated(tmp_path, monkeypatch):
    path = tmp_path / "t.db"
    prepare(path, tmp_path / "backups").dispose()
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO leases VALUES ('k', 'h', 1, 1.0)")
        db.commit()

    def add_column(op):
        op.add_column("leases", sa.Column("note", sa.Text))

    following = follow(monkeypatch, add_column)
    (tmp_path / "backups").mkdir()
    (tmp_path / "backups" / "t-0001-cut.db.part").write_bytes(b"what a kill has left")
    prepare(path, tmp_path / "backups").dispose()
    assert look(path) == following
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT key, note FROM leases").fetchall() == [("k", None)]
    (copy,) = (tmp_path / "backups").iterdir()
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("SELECT version_num FROM alembic_version").fetchone() == (REVISION,)
        assert db.execute("SELECT key FROM leases").fetchone() == ("k",)


async def test_a_step_that_fails_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "t.db"
    prepare(path, tmp_path / "backups").dispose()
    before = columns(path)

    def cut(op):
        op.add_column("leases", sa.Column("note", sa.Text))
        raise KeyError("cut")

    follow(monkeypatch, cut)
    with pytest.raises(KeyError, match="cut"):
        prepare(path, tmp_path / "backups")
    assert look(path) == REVISION and columns(path) == before


async def test_a_fresh_database_is_made_whole_or_not_at_all(tmp_path, monkeypatch):
    from tenure.store import sqlite

    def cut(_db, _revision):
        raise KeyError("cut")

    path = tmp_path / "t.db"
    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "stamp", cut)
        with pytest.raises(KeyError, match="cut"):
            prepare(path, tmp_path / "backups")
    assert look(path) is None
    prepare(path, tmp_path / "backups").dispose()
    assert look(path) == REVISION


async def test_a_copy_has_its_name_when_it_is_whole_and_is_private(tmp_path):
    path, backups, written = tmp_path / "t.db", tmp_path / "backups", []
    engine = prepare(path, backups)
    sa.event.listen(engine, "before_cursor_execute", lambda *call: written.extend(call[3]))
    copy = migrate.backup(engine, path, backups, "0001")
    assert written == [f"{copy}.part"] and [*backups.iterdir()] == [copy]
    assert copy.stat().st_mode & 0o777 == 0o600 and backups.stat().st_mode & 0o777 == 0o700


async def test_a_database_that_cannot_be_made_is_told_in_a_sentence(tmp_path):
    with pytest.raises(StoreError, match=r"cannot be opened .* check the file's permissions"):
        prepare(tmp_path / "nowhere" / "t.db", tmp_path / "backups")


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
