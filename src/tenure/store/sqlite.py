"""SQLite: one writer thread with group commit, a few reader threads, one registry of handles.

WAL with ``synchronous=FULL``. The writer takes everything that waits, opens one transaction with
BEGIN IMMEDIATE and commits once. A write that fails harms only itself: all of its batch are then
done again, each in a savepoint. A commit that fails fails every write in it and publishes nothing.
Each handle is opened, used and closed by its own thread. Nothing here opens the database file
except through the library (closing any other descriptor of it would drop our locks).
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import NullPool

from tenure.conversation import Found
from tenure.errors import LeaseLost, StoreError, StoreFull
from tenure.store import base as b, finding, reads, statements as st
from tenure.store.files_statements import read_uploads
from tenure.store.log_watch import LogWatch
from tenure.store.memory_statements import find_memories, fold, read_memories
from tenure.store.outside_statements import read_containers
from tenure.store.schema import REVISION, metadata, stamp
from tenure.store.terms import Term

T = TypeVar("T")

READERS_MAX = 2
"""Reader threads did not scale beyond this on two cores (bench/, store table)."""
_OF_ONE_WRITE = (StoreError, sa.exc.IntegrityError, sqlite3.IntegrityError)
"""What is the fault of a single write. All of its batch is then done again, each in a savepoint."""
BATCH_MAX = 256
"""Once so many writes stand in a transaction, no more are taken into it."""
BUSY_TIMEOUT_MS = 5_000


class _Write:
    """One accepted write: its operations and who waits for it."""

    __slots__ = ("error", "future", "ops", "results")

    def __init__(self, ops: Sequence[b.Op], future: asyncio.Future[list[Any]]) -> None:
        self.ops = ops
        self.future = future
        self.results: list[Any] = []
        self.error: Exception | None = None


class SqliteStore:
    """The `Store` of one database file. Made by `open_sqlite`, ended by `aclose`.

    Ownership: the caller owns the store; the store owns its threads and handles.
    """

    def __init__(self, path: Path, engine: Engine) -> None:
        self._path = path
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._accepted: list[_Write] = []
        self._writes: queue.SimpleQueue[list[_Write] | None] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[tuple[Callable[[Connection], Any], Any] | None] = (
            queue.SimpleQueue()
        )
        self._closing: asyncio.Future[None] | None = None
        self._ended = self._loop.create_future()
        self._home: tuple[int, Callable[[], object]] | None = None
        self._commits = 0
        self._written = 0
        self._writer = threading.Thread(target=self._write_loop, name="store-writer", daemon=True)
        self._readers: list[threading.Thread] = []
        self._idle_readers = 0
        self._running = 1
        """Threads that have not left their loop."""
        self._writer.start()

    # --- the Store protocol -------------------------------------------------------------------

    def write(self, *ops: b.Op) -> asyncio.Future[list[Any]]:
        """Accept a write; see `Store.write`."""
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        if self._closing is not None:
            future.set_exception(StoreError("The store is closed; nothing more is written."))
        else:
            if not self._accepted:
                self._loop.call_soon(self._hand_over)
            self._accepted.append(_Write(ops, future))
        return future

    def _hand_over(self) -> None:
        """Give the writer what was accepted in this turn of the loop, in one go.

        Waking it for each write would have the two threads pass the interpreter to and fro.
        """
        accepted, self._accepted = self._accepted, []
        for first in range(0, len(accepted), BATCH_MAX):
            self._writes.put(accepted[first : first + BATCH_MAX])

    async def session(self, session_id: str) -> b.SessionRow | None:
        """One session."""
        return await self._read(lambda db: reads.read_session(db, session_id))

    async def sessions(
        self, *, limit: int, status: str | None = None, only: b.Sieve | None = None
    ) -> list[b.SessionRow]:
        """Sessions, newest use first; with `only`, what it lets through, pinned ones first."""
        return await self._read(lambda db: reads.read_sessions(db, limit, status, only))

    async def search(self, terms: tuple[Term, ...], *, only: b.Sieve, limit: int) -> list[Found]:
        """Sessions in whose messages every term stands, the best match first."""
        return await self._read(lambda db: finding.search(db, terms, only, limit))

    async def history(self, session_id: str) -> list[b.ItemRow]:
        """All entries in order."""
        return await self._read(lambda db: reads.read_history(db, session_id))

    async def turns(self, session_id: str) -> list[b.TurnRow]:
        """All turns in order."""
        return await self._read(lambda db: reads.read_turns(db, session_id))

    async def turn_by_key(self, session_id: str, key: str) -> b.TurnRow | None:
        """The turn whose prompt came with this idempotency key."""
        return await self._read(lambda db: reads.read_turn_by_key(db, session_id, key))

    async def questions(self, session_id: str, *, decision: str) -> list[b.ApprovalRow]:
        """The questions of a session that were decided in one way, oldest first."""
        return await self._read(lambda db: reads.read_questions(db, session_id, decision))

    async def ends(self) -> list[b.EndRow]:
        """Ends of sessions whose hook has not finished, oldest first."""
        return await self._read(reads.read_ends)

    async def notes(self, session_id: str) -> list[b.NoteRow]:
        """The notes of a session that were not delivered, oldest first."""
        return await self._read(lambda db: reads.read_notes(db, session_id))

    async def uploads(self, session_id: str = "") -> dict[str, tuple[int, ...]]:
        """Contents that a session, or any, refers to."""
        return await self._read(lambda db: read_uploads(db, session_id))

    async def containers(self) -> list[b.ContainerRow]:
        """Containers that may be there, oldest first."""
        return await self._read(read_containers)

    async def memories(self) -> list[b.MemoryRow]:
        """What agents remember, oldest first."""
        return await self._read(read_memories)

    async def find_memories(
        self, terms: tuple[Term, ...], *, state: str, limit: int
    ) -> list[b.MemoryRow]:
        """Of that what has every term, the best match first."""
        return await self._read(lambda db: find_memories(db, terms, state, limit))

    async def unfinished(self) -> list[b.Unfinished]:
        """Sessions with queued prompts or marked turns, the one that waits longest first."""
        return await self._read(reads.read_unfinished)

    async def home(self) -> b.HomeRow | None:
        """Who holds the home."""
        return await self._read(st.read_home)

    def hold_home(self, epoch: int, lost: Callable[[], object]) -> None:
        """Fence every later write by the home's epoch; see `Store.hold_home`."""
        self._home = (epoch, lost)

    async def events(
        self, session_id: str, *, epoch: int, after_seq: int, limit: int
    ) -> list[b.EventRow]:
        """Durable events of one epoch after a sequence number."""
        return await self._read(
            lambda db: reads.read_events(db, session_id, epoch, after_seq, limit)
        )

    def statistics(self) -> dict[str, int]:
        """Handles, threads, writes and commits so far."""
        return {
            "handles": 1 + len(self._readers),
            "threads": 1 + len(self._readers),
            "writes": self._written,
            "commits": self._commits,
        }

    async def aclose(self) -> None:
        """Finish what was accepted, checkpoint, close every handle.

        Idempotent. A cancelled waiter leaves the closing to go on.
        """
        if self._closing is None:
            self._closing = self._ended
            self._hand_over()
            self._writes.put(None)
            for _ in self._readers:
                self._reads.put(None)
        await asyncio.shield(self._ended)
        for thread in (self._writer, *self._readers):
            thread.join()  # each has left its loop already; this waits for microseconds
        self._engine.dispose()

    # --- reading ------------------------------------------------------------------------------

    async def _read(self, fn: Callable[[Connection], T]) -> T:
        if self._closing is not None:
            raise StoreError("The store is closed; nothing more is read.")
        future: asyncio.Future[T] = self._loop.create_future()
        if self._idle_readers == 0 and len(self._readers) < READERS_MAX:
            thread = threading.Thread(target=self._read_loop, name="store-reader", daemon=True)
            self._readers.append(thread)
            self._running += 1
            thread.start()
        else:
            self._idle_readers = max(0, self._idle_readers - 1)
        self._reads.put((fn, future))
        return await future

    def _read_loop(self) -> None:
        """Serve reads until the end. Without a handle each read fails, and the next tries again."""
        ended = False
        while not ended:
            try:
                with self._engine.connect() as db:
                    self._serve_reads(db)
                    ended = True
            except Exception as exc:  # noqa: BLE001 - the waiter gets it; the thread lives on
                job = None if ended else self._reads.get()
                ended = job is None
                if job is not None:
                    self._deliver(self._finish_read, job[1], None, _told(exc, self._path))
        self._deliver(self._left)

    def _serve_reads(self, db: Connection) -> None:
        while (job := self._reads.get()) is not None:
            fn, future = job
            result: Any = None
            error: BaseException | None = None
            try:
                result = fn(db)
            except sa.exc.SQLAlchemyError as exc:
                error = _told(exc, self._path)
            except Exception as exc:  # noqa: BLE001 - the waiter gets it; the thread lives on
                error = exc
            self._deliver(self._finish_read, future, result, error)

    def _finish_read(self, future: asyncio.Future[Any], result: Any, error: Any) -> None:
        self._idle_readers = min(len(self._readers), self._idle_readers + 1)
        _resolve(future, result, error)

    # --- writing ------------------------------------------------------------------------------

    def _write_loop(self) -> None:
        """Write until the end. Without a handle each batch fails, and the next tries again."""
        log = LogWatch(self._path)
        more = True
        while more:
            try:
                with self._engine.connect() as db:
                    while more:
                        more = self._write_some(db, log)
                    _checkpoint(db)
            except Exception as exc:  # noqa: BLE001 - every waiter gets it; the writer lives on
                if more:
                    batch, more = self._take_batch()
                    for write in batch:
                        write.error = _told(exc, self._path)
                    self._deliver(_settle, batch)
        self._deliver(self._left)

    def _left(self) -> None:
        """A thread has left its loop. The last one may be in a read that nobody waits for."""
        self._running -= 1
        if not self._running:
            self._ended.set_result(None)

    def _write_some(self, db: Connection, log: LogWatch) -> bool:
        """Write what waits; whether there is more. It is not held while the next is awaited."""
        batch, more = self._take_batch()
        self._commit(db, batch, log)
        self._deliver(_settle, batch)
        return more

    def _take_batch(self) -> tuple[list[_Write], bool]:
        """What waits now, at least one; False when the end was asked for."""
        batch: list[_Write] = []
        entry = self._writes.get()
        while entry is not None:
            batch += entry
            if len(batch) >= BATCH_MAX:
                return batch, True
            try:
                entry = self._writes.get_nowait()
            except queue.Empty:
                return batch, True
        return batch, False

    def _commit(self, db: Connection, batch: list[_Write], log: LogWatch) -> None:
        if not batch:
            return
        try:
            log.check()
            try:
                self._transact(db, batch, _apply_together)
            except _OF_ONE_WRITE:
                self._transact(db, batch, _apply_apart)
            log.remember()
            fold(db)
            self._commits += 1
            self._written += len(batch)
        except Exception as exc:  # noqa: BLE001 - every waiter gets it; the writer lives on
            if isinstance(exc, LeaseLost):  # only the home's: a session's stays its own write's
                self._deliver(self._tell_lost)
            known = isinstance(exc, sa.exc.SQLAlchemyError | sqlite3.Error)
            error = _told(exc, self._path) if known else exc
            for write in batch:
                write.error = write.error or error

    def _transact(
        self, db: Connection, batch: list[_Write], apply: Callable[[Connection, list[_Write]], None]
    ) -> None:
        """One transaction, committed whole or not at all."""
        raw = _raw(db)
        raw.execute("BEGIN IMMEDIATE")
        try:
            if self._home is not None:
                st.check_home(db, self._home[0])
            apply(db, batch)
            db.exec_driver_sql("COMMIT")
        except BaseException:
            if raw.in_transaction:
                raw.execute("ROLLBACK")
            raise

    def _tell_lost(self) -> None:
        if self._home is not None:
            epoch, lost = self._home
            self._home = (epoch, _told_already)
            lost()

    def _deliver(self, fn: Callable[..., object], *args: object) -> None:
        """Hand a result to the loop thread; a loop that is gone has nobody waiting."""
        try:
            self._loop.call_soon_threadsafe(fn, *args)
        except RuntimeError:
            return


def _apply_together(db: Connection, batch: list[_Write]) -> None:
    """Run writes all of which fall if one fails. New sessions come first, in one go.

    What else is written of a session stands behind its creation, so nothing sees the difference.
    """
    new = [op for write in batch for op in write.ops if type(op) is b.InsertSession]
    st.insert_sessions(db, new)
    for write in batch:
        write.results = [
            None if type(op) is b.InsertSession else st.apply(db, op) for op in write.ops
        ]


def _apply_apart(db: Connection, batch: list[_Write]) -> None:
    """Run each write inside its savepoint; an error of its own stays its own."""
    for write in batch:
        _apply_one(db, write)


def _apply_one(db: Connection, write: _Write) -> None:
    raw = _raw(db)  # a savepoint straight at the driver costs a tenth
    raw.execute("SAVEPOINT w")
    try:
        write.results = [st.apply(db, op) for op in write.ops]
    except (sa.exc.IntegrityError, sqlite3.IntegrityError) as exc:
        raw.execute("ROLLBACK TO w")
        why = getattr(exc, "orig", exc)
        write.error = StoreError(f"The store refused {st.names(write.ops)}: {why}.")
    except StoreError as exc:
        raw.execute("ROLLBACK TO w")
        write.error = exc
    raw.execute("RELEASE w")


def _settle(batch: list[_Write]) -> None:
    for write in batch:
        _resolve(write.future, write.results, write.error)


def _resolve(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _told_already() -> None:
    """The loss of the home is told once."""


def _raw(db: Connection) -> sqlite3.Connection:
    """The driver's own connection."""
    raw = db.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    return raw


def _checkpoint(db: Connection) -> None:
    """Fold the log into the file, best effort: it is folded at the next open otherwise."""
    try:
        db.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    except sa.exc.SQLAlchemyError:
        return


def _told(exc: Exception, path: Path) -> StoreError:
    """The library's error as one of ours, in a sentence."""
    text = str(getattr(exc, "orig", None) or exc)
    if "disk is full" in text or "disk I/O error" in text:
        return StoreFull(
            f"No space is left for {path} ({text}); free some, nothing stored is lost."
        )
    if "unable to open" in text:
        return StoreError(
            f"{path} cannot be opened ({text}); check the file's permissions and the number of "
            "open files (ulimit -n)."
        )
    return StoreError(f"The database {path} failed: {text}.")


def _engine(path: Path) -> Engine:
    engine = sa.create_engine(
        f"sqlite:///{path}",
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        connect_args={"timeout": BUSY_TIMEOUT_MS / 1000, "check_same_thread": True},
    )

    @sa.event.listens_for(engine, "connect")
    def _pragmas(raw: Any, _record: Any) -> None:
        for wish in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
            raw.execute(f"PRAGMA {wish}")

    return engine


def prepare(path: Path, backups: Path) -> Engine:
    """Make, or bring up to date, the database at `path`; blocking, for a thread.

    A fresh file is made from today's metadata and stamped; an older one is copied to `backups`
    and migrated. Returns the engine; the caller owns it.

    Raises:
        SchemaTooNew: a newer release wrote the file.
        StoreError: it cannot be read or made.
    """
    from tenure.store.revision import look

    found = look(path)
    engine = _engine(path)
    try:
        if found is None:
            _create(engine)
        elif found != REVISION:
            from tenure.store.migrate import migrate

            migrate(engine, path, backups, found)
    except sa.exc.SQLAlchemyError as exc:
        engine.dispose()
        raise _told(exc, path) from None
    except BaseException:
        engine.dispose()
        raise
    path.chmod(0o600)
    return engine


def _create(engine: Engine) -> None:
    with engine.connect() as db:
        db.exec_driver_sql("BEGIN IMMEDIATE")
        metadata.create_all(db)
        stamp(db, REVISION)
        db.exec_driver_sql("COMMIT")


def open_sqlite(path: Path, engine: Engine) -> SqliteStore:
    """Start the threads on a prepared database; on the loop thread. The caller owns the store."""
    return SqliteStore(path, engine)
