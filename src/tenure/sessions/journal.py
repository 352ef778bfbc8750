"""A session's memory: what is persisted, then published, in one order.

Every durable event is stored in the same write as the rows it announces and gets its number there;
it is published after the commit. What streams (deltas) is published at once, unless something
durable before it still waits for its commit: then it waits in line behind it. A write that fails
publishes nothing, and takes what its turn had in line with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from tenure.agent.ports import Compaction, TurnEvent, TurnStarted
from tenure.clock import Clock
from tenure.conversation import Message
from tenure.errors import LeaseLost
from tenure.protocol.messages import EventParams
from tenure.sessions.budget import Memory, size_of
from tenure.sessions.events import EventRing
from tenure.sessions.projection import Wire, project
from tenure.store.base import (
    AppendEvent,
    AppendItem,
    DeliverNotes,
    EventRow,
    Fence,
    FenceTurn,
    ItemRow,
    Op,
    PatchTurn,
    Store,
)

log = logging.getLogger("tenure.sessions")
_encode = msgspec.json.encode


class _Entry:
    """One place in the line: events, and the commit that they wait for (None: none)."""

    __slots__ = ("commit", "events", "sizes", "turn_id")

    def __init__(
        self,
        events: list[EventParams],
        commit: asyncio.Future[list[Any]] | None,
        turn_id: str,
        sizes: Sequence[int] = (),
    ) -> None:
        self.events = events
        self.commit = commit
        self.turn_id = turn_id
        self.sizes = sizes
        """Bytes of each event's payload; as many trailing results of the commit are numbers."""

    @property
    def ready(self) -> bool:
        """Whether it waits no more."""
        return self.commit is None or self.commit.done()


class Journal:
    """One per live session. Owns nothing but memory; the store outlives it."""

    __slots__ = (
        "_budget", "_flushing", "_held_bytes", "_line", "_next_item", "_publish", "_store", "clock",
        "count", "epoch", "items", "last_seq", "loaded", "revision", "ring", "session_id",
    )  # fmt: skip

    def __init__(
        self,
        store: Store,
        session_id: str,
        epoch: int,
        clock: Clock,
        publish: Callable[[EventParams, str], None],
        memory: Memory,
    ) -> None:
        self._store = store
        self.session_id = session_id
        self.epoch = epoch
        self.clock = clock
        self._publish = publish
        self._line: deque[_Entry] = deque()
        self._flushing = False
        self.ring = EventRing(memory.rings)
        self._budget = memory.histories
        self._held_bytes = 0
        self.loaded = True
        """Whether `items` is the history; not after `shed`."""
        self._next_item = 1
        self.count = 0
        """Entries of the whole history, in memory or not."""
        self.items: list[ItemRow] = []
        """What the model is shown: the last summary, then every entry after it."""
        self.revision = 0
        self.last_seq = 0

    def load(self, rows: Sequence[ItemRow]) -> None:
        """Take over stored history."""
        summary = next((row for row in reversed(rows) if row.kind == "summary"), None)
        after = summary.replaces if summary else 0
        kept = [row for row in rows if row.kind == "message" and row.seq > after]
        self.items = [summary, *kept] if summary else kept
        self._next_item = max((row.seq for row in rows), default=0) + 1
        self.count = len(rows)
        self.loaded = True
        self._changed()

    def shed(self) -> bool:
        """Give the history back to the store, which has it; `load` brings it again.

        Returns:
            False where a write still waits for its commit, so that the store has not all of it.
        """
        if self._line:
            return False
        self.items = []
        self.loaded = False
        self._changed()
        self.ring.clear()
        return True

    def forget(self) -> None:
        """The session is over, or was never stored: its memory is given back."""
        self.items = []
        self._changed()
        self.ring.clear()

    def _changed(self, count: int | None = None) -> None:
        """History is another one, by `count` bytes; None counts anew."""
        self.revision += 1
        if count is None:
            count = sum(size_of(row.message) for row in self.items) - self._held_bytes
        self._held_bytes += count
        self._budget.charge(count)

    # --- writing ------------------------------------------------------------------------------

    def new_item(self, message: Message, turn_id: str) -> ItemRow:
        """The next entry of history, in memory at once."""
        row = ItemRow(self._next_item, turn_id, "message", message)
        self._next_item += 1
        self.items.append(row)
        self.count += 1
        self._changed(size_of(message))
        return row

    @property
    def next_item(self) -> int:
        """The place of the next entry."""
        return self._next_item

    def drop_from(self, rows: Sequence[ItemRow], first: int, place: int) -> None:
        """What was written when `place` was the next entry is stored: `first` and later are gone.

        Args:
            rows: what was stored of the history then.
            first: the first entry that is gone.
            place: what has come since is kept.
        """
        kept = [row for row in rows if row.seq < first]
        newer, came = [row for row in self.items if row.seq >= place], self._next_item
        if self.loaded:
            self.load(kept)
            if came > place:
                self.items += newer
                self._next_item = came
                self._changed()
        self.count = len(kept) + len(newer)

    def drop_item(self, row: ItemRow) -> None:
        """Take an entry back whose write failed."""
        if row in self.items:
            self.items.remove(row)
            self.count -= 1
            self._changed(-size_of(row.message))

    def record(
        self, ops: Sequence[Op], events: Sequence[Wire] = (), *, turn_id: str = ""
    ) -> asyncio.Future[list[Any]]:
        """Persist `ops` and `events` in one fenced write, then publish `events`.

        Returns the commit. Nobody needs to await it: a failure is logged, and its events are not
        published. Cancelling it changes nothing for others if it is shielded first.
        """
        return self._record(
            (Fence(f"session:{self.session_id}", self.epoch), *ops), events, turn_id
        )

    def record_nowait(
        self, ops: Sequence[Op], events: Sequence[Wire] = (), *, turn_id: str = ""
    ) -> None:
        """`record`, for whoever does not wait: a failure is logged."""
        _ = self.record(ops, events, turn_id=turn_id)

    def open(self, ops: Sequence[Op]) -> asyncio.Future[list[Any]]:
        """The write that creates the session; nothing can be fenced before it."""
        return self._record(ops, (), "")

    def _record(
        self, ops: Sequence[Op], events: Sequence[Wire], turn_id: str
    ) -> asyncio.Future[list[Any]]:
        now = self.clock.wall()
        rows = [
            AppendEvent(self.session_id, EventRow(self.epoch, 0, kind, _encode(payload), now))
            for kind, payload in events
        ]
        commit = self._store.write(*ops, *rows)
        shown = [EventParams(kind, self.session_id, payload) for kind, payload in events]
        sizes = [len(row.event.payload) for row in rows]
        self._line.append(_Entry(shown, commit, turn_id, sizes))
        commit.add_done_callback(self._flush)
        return commit

    def transient(self, kind: str, payload: dict[str, Any], *, turn_id: str = "") -> None:
        """Publish now, or in line behind what still waits. Never waits."""
        event = EventParams(kind, self.session_id, payload, transient=True)
        self._flush()  # what is stored goes out before it, not a turn of the loop later
        if self._line:
            self._line.append(_Entry([event], None, turn_id))
        else:
            self._publish(event, turn_id)

    async def caught_up(self) -> None:
        """Wait until nothing is in line. Cancellable."""
        while self._line:
            commits = [entry.commit for entry in self._line if entry.commit is not None]
            await asyncio.wait({commits[-1]})
            await asyncio.sleep(0)  # until it is flushed

    def forget_turn(self, turn_id: str) -> None:
        """Drop what a refused turn still had in line without a commit of its own."""
        self._line = deque(e for e in self._line if e.commit is not None or e.turn_id != turn_id)

    def _flush(self, _commit: object = None) -> None:
        if self._flushing:  # whoever is told something may say something
            return
        self._flushing = True
        try:
            while self._line and self._line[0].ready:
                self._settle(self._line.popleft())
        finally:
            self._flushing = False

    def _settle(self, entry: _Entry) -> None:
        if entry.commit is None:
            self._publish_all(entry)
        elif entry.commit.cancelled():
            log.error("A commit of session %s was cancelled by its waiter", self.session_id)
        elif (error := entry.commit.exception()) is not None:
            log.error("A write of session %s failed: %s", self.session_id, error)
            if entry.turn_id:
                self.forget_turn(entry.turn_id)
        else:
            self._number(entry, entry.commit.result())
            self._publish_all(entry)

    def _number(self, entry: _Entry, results: list[Any]) -> None:
        sizes = entry.sizes
        if sizes:
            for event, size, seq in zip(entry.events, sizes, results[-len(sizes) :], strict=True):
                event.epoch, event.seq = self.epoch, seq
                self.last_seq = seq
                self.ring.add(event, size)

    def _publish_all(self, entry: _Entry) -> None:
        for event in entry.events:
            self._publish(event, entry.turn_id)


async def _until(commit: asyncio.Future[list[Any]]) -> None:
    await asyncio.shield(commit)


def failed(done: asyncio.Future[list[Any]]) -> bool:
    """Whether a commit that is over stored nothing."""
    return not done.cancelled() and done.exception() is not None


def stored(
    commit: asyncio.Future[list[Any]], take: Callable[[], None]
) -> Coroutine[Any, Any, None]:
    """Await a commit. If it is stored `take` is called, also when nobody waits (any more).

    Raises:
        StoreError: it is not.
    """
    commit.add_done_callback(lambda done: None if failed(done) else take())
    return _until(commit)


class TurnRecorder:
    """One turn's `TurnJournal`. Fenced off when its turn is over, however the turn ended."""

    __slots__ = ("_has_row", "_journal", "_live", "_taken", "turn_id")

    def __init__(
        self,
        journal: Journal,
        turn_id: str,
        *,
        has_row: bool = True,
        taken: Callable[[tuple[str, ...]], None] = bool,  # type: ignore[assignment]
    ) -> None:
        self._taken = taken
        self._journal = journal
        self._live = True
        self._has_row = has_row
        self.turn_id = turn_id

    def fence(self) -> None:
        """From now on nothing of this turn is stored or published. Idempotent."""
        self._live = False

    @property
    def revision(self) -> int:
        """Changes with every change of history."""
        return self._journal.revision

    def history(self) -> Sequence[Message]:
        """What the model is shown."""
        return [row.message for row in self._journal.items]

    async def item(
        self,
        message: Message,
        *,
        events: tuple[TurnEvent, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> None:
        """Append durably, then publish; see `TurnJournal.item`."""
        ops: list[Op] = [DeliverNotes(notes, self._journal.clock.wall())] if notes else []
        commit = self._add(message, ops, events)
        if notes:
            commit.add_done_callback(lambda done: None if failed(done) else self._taken(notes))
        await asyncio.shield(commit)

    def _add(
        self, message: Message, ops: Sequence[Op], events: Sequence[TurnEvent]
    ) -> asyncio.Future[list[Any]]:
        self._check()
        journal = self._journal
        row = journal.new_item(message, self.turn_id)
        commit = self._record([*ops, AppendItem(journal.session_id, row)], events)
        # Not by the waiter: it may be gone when the write fails.
        commit.add_done_callback(lambda done: journal.drop_item(row) if failed(done) else None)
        return commit

    def note(
        self, text: str, ops: Sequence[Op], settled: Callable[[bool], None]
    ) -> Coroutine[Any, Any, None]:
        """Tell the model something that nobody has said, in one write with `ops`.

        That has begun when this returns; awaiting the result waits for its commit.

        Args:
            text: what it reads.
            ops: what is true from then on.
            settled: called with whether that is stored, also when the waiter is gone.

        Raises:
            StoreError: it is not.
        """
        commit = self._add(Message("user", text, note=True), ops, ())
        commit.add_done_callback(lambda done: settled(not failed(done)))
        return _until(commit)

    async def event(self, event: TurnEvent) -> None:
        """Publish durably. The commit is in line before whatever follows; it is not waited for."""
        self._check()
        # The turn's start was stored with its prompt.
        if not isinstance(event, TurnStarted) and self._wires((event,)):
            _ = self._record([], (event,))

    def transient(self, event: TurnEvent) -> None:
        """Publish at once; dropped when the turn is over."""
        if self._live and (wire := project(event)) is not None:
            self._journal.transient(*wire, turn_id=self.turn_id)

    async def caught_up(self) -> None:
        """See `TurnJournal.caught_up`."""
        await self._journal.caught_up()

    async def compact(self, change: Compaction, *, events: tuple[TurnEvent, ...] = ()) -> bool:
        """Compare and commit; see `TurnJournal.compact`."""
        self._check()
        journal = self._journal
        if change.revision != journal.revision or change.dropped < 1:
            return False
        upto = journal.items[change.dropped - 1]
        row = ItemRow(
            journal._next_item,  # noqa: SLF001 - this class is the journal's own hand
            self.turn_id,
            "summary",
            change.summary,
            replaces=upto.replaces if upto.kind == "summary" else upto.seq,
        )
        journal._next_item += 1  # noqa: SLF001
        before = journal.items
        journal.items = [row, *before[change.dropped :]]
        journal.count += 1
        journal._changed()  # noqa: SLF001
        commit = self._record([AppendItem(journal.session_id, row)], events)

        def check(done: asyncio.Future[list[Any]]) -> None:
            if failed(done) and journal.items[:1] == [row]:
                journal.items = [*before[: change.dropped], *journal.items[1:]]
                journal.count -= 1
                journal._changed()  # noqa: SLF001

        commit.add_done_callback(check)  # not by the waiter: it may be gone when the write fails
        await asyncio.shield(commit)
        return True

    @property
    def live(self) -> bool:
        """Whether the turn may still write."""
        return self._live

    def take_in(
        self, prompts: Sequence[tuple[str, Message]], settled: Callable[[bool], None]
    ) -> Coroutine[Any, Any, None]:
        """Store steered prompts as entries of this turn, and the end of their own rows with them.

        That has begun when this returns; awaiting the result waits for its commit.

        Args:
            prompts: the id and message of each.
            settled: called with whether they are stored, also when the waiter is gone.

        Raises:
            StoreError: none of them is.
        """
        self._check()
        journal, now = self._journal, self._journal.clock.wall()
        rows = [journal.new_item(message, self.turn_id) for _, message in prompts]
        taken = {"state": "completed", "cause": "steered", "ended_at": now}
        ops: list[Op] = [FenceTurn(self.turn_id, runs=True)]
        events: list[Wire] = []
        for (turn_id, message), row in zip(prompts, rows, strict=True):
            ops += [FenceTurn(turn_id), AppendItem(journal.session_id, row)]
            ops.append(PatchTurn(turn_id, taken))
            steered = {"turn_id": turn_id, "into": self.turn_id, "text": message.text}
            events.append(("message.steered", steered))
        commit = journal.record(ops, events, turn_id=self.turn_id)

        def check(done: asyncio.Future[list[Any]]) -> None:
            if lost := failed(done):
                for row in rows:
                    journal.drop_item(row)
            settled(not lost)

        commit.add_done_callback(check)
        return _until(commit)

    def _record(self, ops: Sequence[Op], events: Sequence[TurnEvent]) -> asyncio.Future[list[Any]]:
        """Record for this turn, if it is stored and not over: the store itself checks that."""
        ops = (FenceTurn(self.turn_id, runs=True), *ops) if self._has_row else ops
        return self._journal.record(ops, self._wires(events), turn_id=self.turn_id)

    def _wires(self, events: Sequence[TurnEvent]) -> list[Wire]:
        return [wire for event in events if (wire := project(event)) is not None]

    def _check(self) -> None:
        if not self._live:
            raise LeaseLost(f"Turn {self.turn_id} is over; it can write nothing more.")
