"""What is published waits for what is stored, and not longer."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tenure.agent.ports import Compaction, TextDelta
from tenure.conversation import Message
from tenure.errors import LeaseLost, StoreFull
from tenure.sessions.budget import Memory
from tenure.sessions.journal import Journal, TurnRecorder
from tenure.store.base import AppendEvent, Fence, FenceTurn, ItemRow
from tenure.testing.clock import ManualClock, settle


class HeldCommits:
    """A store whose commits the test ends."""

    def __init__(self) -> None:
        self.commits: list[asyncio.Future[list[int]]] = []

    def write(self, *ops):
        self.commits.append(asyncio.get_running_loop().create_future())
        assert isinstance(ops[-1], AppendEvent)
        return self.commits[-1]


async def test_what_comes_after_a_commit_takes_along_what_waited_for_it():
    store, shown = HeldCommits(), []

    def publish(event, _turn):
        shown.append((event.type, event.seq))

    journal = Journal(store, "s1", 1, ManualClock(), publish, Memory())
    journal.record((), [("message.start", {})])
    journal.transient("message.delta", {"text": "a"})
    assert shown == []
    store.commits[0].set_result([None, 7])
    journal.transient("message.delta", {"text": "b"})
    expected = [("message.start", 7), ("message.delta", 0), ("message.delta", 0)]
    assert shown == expected, "in the same turn of the loop"
    await asyncio.sleep(0)
    assert shown == expected, "and once"


async def test_what_is_said_while_something_is_published_does_not_overtake_it():
    store, shown = HeldCommits(), []

    def publish(event, _turn):
        shown.append((event.type, event.seq))
        if event.type == "message.start":
            journal.transient("status.update", {})

    journal = Journal(store, "s1", 1, ManualClock(), publish, Memory())
    journal.record((), [("message.start", {}), ("session.info", {})])
    journal.record((), [("session.title", {})])
    for number, commit in enumerate(store.commits):
        commit.set_result([3 * number + 1, 3 * number + 2][: 2 - number])
    journal.transient("message.delta", {})
    assert [seq for _, seq in shown if seq] == [1, 2, 4]
    assert [kind for kind, seq in shown if not seq] == ["status.update", "message.delta"]


# --- history ------------------------------------------------------------------------------------


class AnyCommits(HeldCommits):
    """The same for every write; keeps what was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[tuple[object, ...]] = []

    def write(self, *ops):
        self.writes.append(ops)
        self.commits.append(asyncio.get_running_loop().create_future())
        return self.commits[-1]

    async def done(self, number: int = -1, error: Exception | None = None) -> None:
        commit, numbers = self.commits[number], range(len(self.writes[number]))
        if error is not None:
            commit.set_exception(error)
            commit.exception()
        else:
            commit.set_result(list(numbers))
        await settle()


async def at_once(coro):
    """What it returns or raises, without waiting for a commit."""
    task = asyncio.ensure_future(coro)
    await settle()
    assert task.done()
    return task.result()


class Written:
    """A journal over such a store, and what it has published."""

    def __init__(self) -> None:
        self.store = AnyCommits()
        self.shown: list[str] = []
        self.journal = Journal(
            self.store, "s1", 1, ManualClock(), lambda e, _: self.shown.append(e.type), Memory()
        )

    def recorder(self, turn_id: str = "t1") -> TurnRecorder:
        return TurnRecorder(self.journal, turn_id)

    @property
    def texts(self) -> list[str]:
        return [row.message.text for row in self.journal.items]


@pytest.fixture
async def written() -> Written:
    return Written()


def rows(*seqs: int, kind: str = "message", replaces: int = 0) -> list[ItemRow]:
    return [ItemRow(seq, "t0", kind, Message("user", f"{kind} {seq}"), replaces) for seq in seqs]


async def test_history_is_loaded_from_its_last_summary_on(written):
    journal = written.journal
    journal.load([*rows(1, 2, 3), *rows(5, kind="summary", replaces=2), *rows(8)])
    assert written.texts == ["summary 5", "message 3", "message 8"]
    assert journal.new_item(Message("user", "next"), "t1").seq == 9, "no place is taken twice"
    assert journal.count == 6


async def test_history_is_given_back_when_all_of_it_is_stored(written):
    journal = written.journal
    journal.record([], [("message.start", {})])
    assert not journal.shed()
    await written.store.done()
    assert len(journal.ring) == 1
    assert journal.shed()
    assert (journal.items, journal.loaded, len(journal.ring)) == ([], False, 0)


async def test_an_entry_is_taken_back_once(written):
    journal = written.journal
    row = journal.new_item(Message("user", "lost"), "t1")
    journal.drop_item(row)
    journal.drop_item(row)
    assert (journal.count, journal.items) == (0, [])


async def test_every_write_but_the_first_is_fenced(written):
    written.journal.open([])
    written.journal.record([])
    assert written.store.writes == [(), (Fence("session:s1", 1),)]


# --- the line -----------------------------------------------------------------------------------


async def test_a_failed_write_takes_along_what_its_own_turn_had_in_line(written):
    journal = written.journal
    journal.record([], [("message.start", {})], turn_id="t1")
    journal.transient("message.delta", {}, turn_id="t1")
    journal.transient("session.info", {})
    journal.record([], [("session.title", {})], turn_id="t1")
    assert written.shown == []
    await written.store.done(0, StoreFull("No space."))
    await written.store.done(1)
    assert written.shown == ["session.info", "session.title"]


async def test_a_commit_that_was_cancelled_holds_up_nothing(written):
    written.journal.record([], [("lost", {})]).cancel()
    written.journal.transient("status.update", {})
    assert written.shown == ["status.update"]


async def test_a_listener_that_fails_holds_up_nothing(written):
    def fails_once(event, _turn):
        written.journal._publish = lambda e, _: written.shown.append(e.type)
        raise ValueError("a fault of the listener")

    written.journal._publish = fails_once
    commit = written.journal.record([], [("message.start", {})])
    commit.set_result([None, 1])
    with pytest.raises(ValueError, match="listener"):
        written.journal.transient("message.delta", {})
    written.journal.record([], [("session.title", {})])
    await written.store.done()
    assert written.shown == ["session.title"]


# --- a turn's own hand --------------------------------------------------------------------------


async def test_a_turn_that_is_over_writes_and_says_nothing(written):
    recorder = written.recorder()
    recorder.fence()
    recorder.transient(TextDelta("late"))
    for late in (
        lambda: recorder.item(Message("user", "late")),
        lambda: recorder.compact(Compaction(Message("user", "s"), 1, recorder.revision)),
    ):
        with pytest.raises(LeaseLost, match="over"):
            await at_once(late())
    with pytest.raises(LeaseLost, match="over"):
        recorder.take_in([("t2", Message("user", "late"))], bool)
    assert (written.store.writes, written.shown, written.texts) == ([], [], [])


async def test_what_a_turn_writes_is_fenced_by_its_row(written):
    writing = asyncio.ensure_future(written.recorder().item(Message("user", "a")))
    await settle()
    assert FenceTurn("t1", runs=True) in written.store.writes[0]
    await written.store.done()
    await writing
    asked = written.recorder().take_in([("t2", Message("user", "b"))], bool)
    assert {FenceTurn("t1", runs=True), FenceTurn("t2")} <= {
        op for op in written.store.writes[1] if isinstance(op, FenceTurn)
    }
    await written.store.done()
    await asked


@pytest.mark.parametrize("leaves", [False, True])
async def test_an_entry_is_in_history_exactly_if_it_is_stored(written, leaves):
    taken: list[tuple[str, ...]] = []
    recorder = TurnRecorder(written.journal, "t1", taken=taken.append)
    for text, error in (("lost", StoreFull("No space.")), ("kept", None)):
        writing = asyncio.ensure_future(recorder.item(Message("user", text), notes=("n",)))
        await settle()
        if leaves:
            writing.cancel()
            await settle()
        assert taken == []
        await written.store.done(error=error)
        await asyncio.wait({writing})
    assert (written.texts, taken) == (["kept"], [("n",)])


async def test_steered_prompts_are_in_history_exactly_if_they_are_stored(written):
    settled: list[bool] = []
    for text, error in (("lost", StoreFull("No space.")), ("kept", None)):
        coming = written.recorder().take_in([("t2", Message("user", text))], settled.append)
        await written.store.done(error=error)
        with contextlib.suppress(StoreFull):
            await coming
    assert (written.texts, settled) == (["kept"], [False, True])


async def test_only_the_history_that_was_read_is_replaced(written):
    recorder = written.recorder()
    written.journal.load(rows(1, 2, 3))
    summary = Message("user", "in short")
    assert not await at_once(recorder.compact(Compaction(summary, 2, recorder.revision - 1)))
    assert not await at_once(recorder.compact(Compaction(summary, 0, recorder.revision)))
    assert len(written.texts) == 3


@pytest.mark.parametrize(
    ("error", "leaves", "texts"),
    [
        (None, False, ["in short", "message 3"]),
        (None, True, ["in short", "message 3"]),
        (StoreFull("No space."), False, ["message 1", "message 2", "message 3"]),
        (StoreFull("No space."), True, ["message 1", "message 2", "message 3"]),
    ],
)
async def test_a_summary_counts_exactly_if_it_is_stored(written, error, leaves, texts):
    recorder = written.recorder()
    written.journal.load(rows(1, 2, 3))
    change = Compaction(Message("user", "in short"), 2, recorder.revision)
    compacting = asyncio.ensure_future(recorder.compact(change))
    await settle()
    if leaves:
        compacting.cancel()
        await settle()
    await written.store.done(error=error)
    await asyncio.wait({compacting})
    assert written.texts == texts
    assert written.journal.count == 3 + (error is None)
    assert compacting.cancelled() == leaves


async def test_a_summary_that_was_not_stored_leaves_another_history_alone(written):
    written.journal.load(rows(1, 2, 3))
    recorder = written.recorder()
    compacting = asyncio.ensure_future(
        recorder.compact(Compaction(Message("user", "in short"), 2, recorder.revision))
    )
    await settle()
    written.journal.load(rows(1))  # rewound meanwhile
    await written.store.done(error=StoreFull("No space."))
    with pytest.raises(StoreFull):
        await compacting
    assert (written.texts, written.journal.count) == (["message 1"], 1)
