"""What becomes of unfinished turns: the decision by itself, and that it is taken again."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import msgspec
import pytest

from support.restarts import Restarts
from tenure.config import Config, LimitsConfig, RecoveryConfig
from tenure.conversation import Message, ToolCall
from tenure.errors import LeaseLost, NotFound, StoreFull
from tenure.models.script import Script
from tenure.sessions.recovery import (
    GO_ON,
    NOTICE,
    OPEN_AT_ONCE,
    PACE_S,
    RETRY_S,
    Recovery,
    events_of,
    mark_running,
    note,
    ops_of,
    plan,
    take_up,
    unanswered,
)
from tenure.store.base import (
    AppendItem,
    DeleteSession,
    Fence,
    FenceTurn,
    InsertSession,
    InsertTurn,
    ItemRow,
    MarkInterrupted,
    PatchSession,
    PatchTurn,
    SessionRow,
    SettleLeftovers,
    TakeLease,
    TakeMark,
    TurnRow,
    Unfinished,
)
from tenure.testing.clock import ManualClock, settle
from tenure.testing.store import MemoryStore
from tenure.testing.waiting import until

NOW = 10_000.0
LIMITS = RecoveryConfig()


def turn(n: int, state: str, cause: str = "", **more) -> TurnRow:
    return TurnRow(f"t{n}", "s", n, state, f"p{n}", 1.0, cause=cause, **more)


def cut(n: int, *, ago: float = 1.0, cause: str = "crash", **more) -> TurnRow:
    return turn(n, "interrupted", cause, marked_at=NOW - ago, **more)


@pytest.mark.parametrize(
    "turns",
    [
        [],
        [turn(1, "completed", "stop")],
        [turn(1, "interrupted", "crash")],
        [turn(1, "interrupted", "shutdown")],
    ],
)
def test_without_a_mark_or_a_queued_prompt_nothing_happens(turns):
    planned = plan(turns, NOW, LIMITS)
    assert (planned.verdict, planned.runs, ops_of(planned, "s", NOW)) == ("nothing", False, [])


@pytest.mark.parametrize("cause", ["user", "client", "timeout"])
def test_what_somebody_ended_is_over_whatever_its_mark_says(cause):
    planned = plan([cut(1, cause=cause)], NOW, LIMITS)
    assert (planned.verdict, planned.marks, planned.runs) == ("nothing", ("t1",), False)
    assert plan([turn(1, "completed", "stop", marked_at=NOW)], NOW, LIMITS).verdict == "nothing"


def test_a_fresh_mark_goes_on_in_its_place_before_what_is_queued():
    planned = plan([cut(1), turn(2, "queued"), turn(3, "queued")], NOW, LIMITS)
    on, *rest = planned.queue
    assert planned.verdict == "go_on"
    assert (on.prompt, on.ordinal, on.continues, on.attempts, on.state) == (
        GO_ON,
        1,
        "t1",
        1,
        "queued",
    )
    assert [t.id for t in rest] == ["t2", "t3"] and [t.attempts for t in rest] == [0, 0]
    assert ops_of(planned, "s", NOW) == [TakeMark("t1"), InsertTurn(on)]


def test_queued_prompts_alone_run_and_the_first_is_counted():
    planned = plan([turn(1, "completed"), turn(2, "queued"), turn(3, "queued")], NOW, LIMITS)
    assert (planned.verdict, [t.id for t in planned.queue]) == ("run", ["t2", "t3"])
    assert ops_of(planned, "s", NOW) == [PatchTurn("t2", {"attempts": 1})]


@pytest.mark.parametrize(
    ("ago", "limits", "verdict"),
    [
        (3599.0, LIMITS, "go_on"),
        (3601.0, LIMITS, "too_old"),
        (1.0, RecoveryConfig(continue_turns=False), "off"),
        (11.0, RecoveryConfig(max_age_s=10.0), "too_old"),
    ],
)
def test_a_turn_goes_on_within_the_limits(ago, limits, verdict):
    planned = plan([cut(1, ago=ago)], NOW, limits)
    assert planned.verdict == verdict and planned.notice
    if verdict != "go_on":
        assert not planned.runs
        assert ops_of(planned, "s", NOW)[-1] == PatchSession(
            "s", {"reason": NOTICE + planned.notice}
        )


def test_an_old_mark_does_not_keep_queued_prompts_from_running():
    planned = plan([cut(1, ago=9999), turn(2, "queued")], NOW, LIMITS)
    assert (planned.verdict, [t.id for t in planned.queue]) == ("too_old", ["t2"])
    assert PatchTurn("t2", {"attempts": 1}) in ops_of(planned, "s", NOW)


@pytest.mark.parametrize("first", [cut(1, attempts=3), turn(1, "queued", attempts=3)])
def test_after_three_attempts_nothing_runs_and_everything_is_returned(first):
    planned = plan([first, turn(2, "queued")], NOW, LIMITS)
    assert (planned.verdict, planned.runs) == ("quarantine", False)
    assert planned.returned[-1].id == "t2"
    assert f'Not run: "{planned.returned[0].prompt}' in planned.notice
    ended = [op for op in ops_of(planned, "s", NOW) if isinstance(op, PatchTurn)]
    assert {op.changes["state"] for op in ended} == {"refused"}


def test_where_nothing_is_returned_none_is_named():
    assert "Not run" not in plan([cut(1, attempts=3)], NOW, LIMITS).notice


def test_what_is_decided_is_told_where_there_is_something_to_tell():
    planned = plan([cut(1, cause="shutdown", attempts=3), turn(2, "queued")], NOW, LIMITS)
    *_, (kind, told) = events_of(planned, (), {})
    assert (kind, told["kind"], told["text"]) == ("session.notice", "quarantine", planned.notice)
    assert (told["turn_id"], told["continued_by"], told["returned"]) == ("t1", "", ["p2"])
    *_, (_, told) = events_of(plan([turn(1, "queued", attempts=3)], NOW, LIMITS), (), {})
    assert (told["turn_id"], told["returned"]) == ("", ["p1"])
    on = plan([cut(1, cause="shutdown")], NOW, LIMITS)
    ((_, told),) = events_of(on, (), {})
    assert (told["kind"], told["continued_by"]) == ("go_on", on.queue[0].id)
    assert events_of(plan([turn(1, "queued")], NOW, LIMITS), (), {}) == []


def item(seq: int, message: Message) -> ItemRow:
    return ItemRow(seq, "t", "message", message)


def test_only_calls_at_the_end_that_have_no_result_get_one():
    calls = tuple(ToolCall(f"c{n}", "shell", "{}") for n in range(3))
    history = [item(1, Message("user", "p")), item(2, Message("assistant", "", tool_calls=calls))]
    assert [m.tool_call_id for m in unanswered(history)] == ["c0", "c1", "c2"]
    history.append(item(3, Message("tool", "ok", tool_call_id="c1")))
    answers = unanswered(history)
    assert [m.tool_call_id for m in answers] == ["c0", "c2"]
    assert all(m.is_error and "check before repeating" in m.text for m in answers)
    assert unanswered([*history, item(4, Message("assistant", "done"))]) == []
    assert unanswered([]) == []


async def poisoned(restarts: Restarts) -> str:
    """A session whose running turn and queued prompt have used up their attempts."""
    async with restarts.boot(Script([{"gate": "never"}])) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session()
        for text in ("one", "two"):
            await client.call("prompt.submit", session_id=session, text=text)
        await client.until("message.start", session)
        await gateway.store.write(
            *(PatchTurn(t.id, {"attempts": 3}) for t in await gateway.store.turns(session))
        )
        restarts.kill()
    return session


ENDS = "SELECT count(*) FROM events WHERE type = 'message.complete' AND CAST(payload AS TEXT) LIKE '%quarantine%'"


async def test_what_is_returned_is_told_once_whoever_else_looks(tmp_path):
    restarts = Restarts(tmp_path)
    session = await poisoned(restarts)
    store = await restarts.store()
    now = restarts.clock.wall()
    (one,) = await store.unfinished()
    turns = await store.turns(session)
    queued = sum(turn.state == "queued" for turn in turns)
    assert queued

    class Behind:
        """A store that shows what stood there before."""

        async def turns(self, _session_id):
            return turns

        def write(self, *ops):
            return store.write(*ops)

    assert await note(store, one, now, LIMITS)
    with pytest.raises(LeaseLost):
        await note(Behind(), one, now, LIMITS)
    await store.aclose()
    assert restarts.rows(ENDS) == [(queued,)]


async def test_a_person_who_is_overtaken_by_the_start_still_gets_the_session(tmp_path):
    restarts = Restarts(tmp_path)
    session = await poisoned(restarts)
    async with restarts.boot(Script([]), recover=False) as gateway:
        store, read = gateway.store, gateway.store.history
        (one,) = await store.unfinished()

        async def overtaken(session_id):
            store.history = read
            turns = await store.turns(session_id)
            store.turns, plain = _answer(turns), store.turns
            await note_with(plain, store, one, restarts.clock.wall())
            return await read(session_id)

        async def note_with(plain, store, one, now):
            shown, store.turns = store.turns, plain
            assert await note(store, one, now, LIMITS)
            store.turns = _once(shown, plain, store)

        store.history = overtaken
        client, _ = await gateway.client()
        opened = await client.call("session.resume", session_id=session)
        assert opened["session_id"] == session
    assert restarts.rows(ENDS)[0][0] > 0


def _answer(turns):
    async def answer(_session_id):
        return turns

    return answer


def _once(shown, plain, store):
    """Show what stood there before, one time."""

    async def answer(session_id):
        store.turns = plain
        return await shown(session_id)

    return answer


async def test_what_cannot_be_opened_yet_is_tried_again(tmp_path):
    restarts = Restarts(tmp_path)
    async with restarts.boot(Script([{"gate": "never"}])) as gateway:
        client, _ = await gateway.client()
        for _ in range(2):
            session = await client.ready_session()
            await client.call("prompt.submit", session_id=session, text="work")
        restarts.kill()
    tight = Config(limits=LimitsConfig(sessions_max=1))
    script = Script([{"text": "went on"}], loop=True)
    async with restarts.boot(script, recover=False, config=tight) as gateway:
        work = gateway.recovery.begin()
        await until(lambda: len(script.requests) == 1 and gateway.recovery.opened == 1)
        (first,) = gateway.sessions.live()
        await until(lambda: first.current is None and not first.queued)
        await gateway.sessions.close(first, "a test makes room")
        assert not work.done()
        await until(lambda: len(gateway.sessions) == 0)
        async with asyncio.timeout(30):
            while not work.done():
                restarts.clock.advance(RETRY_S)
                await settle()
        await until(lambda: len(script.requests) == 2)
        await until(lambda: not any(one.current for one in gateway.sessions.live()))
    assert [state for _, state, _ in restarts.turns()].count("completed") == 2


# --- taking one up --------------------------------------------------------------------------------

ROW = SessionRow("s", "", "/", "m", "", "closed", "", 1.0, 1.0)
CALLS = (ToolCall("c1", "shell", "{}"),)
ENTRIES = (
    item(1, Message("user", "p1")),
    item(2, Message("assistant", "", tool_calls=CALLS)),
)


async def stored(*turns: TurnRow, row: SessionRow = ROW) -> tuple[MemoryStore, SimpleNamespace]:
    """A store with a session that somebody else has had, and what `take_up` wants."""
    store = MemoryStore()
    await store.write(InsertSession(row, "before"), *map(InsertTurn, turns))
    await store.write(*(AppendItem("s", entry) for entry in ENTRIES))
    store.writes.clear()
    ports = SimpleNamespace(store=store, clock=ManualClock(NOW), holder="me", config=Config)
    return store, ports


def lease(store):
    return store._rows.leases["session:s"]


async def test_what_is_unfinished_is_taken_up_in_one_fenced_write():
    store, ports = await stored(cut(1), turn(2, "queued"))
    taken = await take_up(ports, ROW)
    assert (taken.epoch, lease(store)) == (2, ("me", 2))
    assert [one.prompt for one in taken.queue] == [GO_ON, "p2"]
    opened, settled = store.writes
    assert SettleLeftovers("crash", NOW, "s", keep_queued=True) in opened
    assert settled[0] == Fence("session:s", 2)
    assert TakeMark("t1") in settled
    (answer,) = [op.item for op in settled if isinstance(op, AppendItem)]
    assert (answer.seq, answer.message.tool_call_id) == (3, "c1")
    assert [entry.seq for entry in taken.history] == [1, 2, 3]
    assert [entry.turn_id for entry in taken.history] == ["t"] * 3
    assert taken.row.message_count == ROW.message_count + 1


@pytest.mark.parametrize(("reason", "told"), [(f"{NOTICE}too old", "too old"), ("closed", "")])
async def test_what_was_told_before_is_still_told_and_nothing_else(reason, told):
    row = msgspec.structs.replace(ROW, reason=reason)
    _, ports = await stored(row=row)
    assert (await take_up(ports, row)).notice == told


async def test_what_runs_is_marked_once_in_each_database_and_a_mark_that_fails_is_logged(caplog):
    one, two = MemoryStore(), MemoryStore()
    two.fail(StoreFull("No space is left."))
    ports = [SimpleNamespace(profile=name, store=store) for name, store in
             (("one", one), ("one", one), ("two", two))]  # fmt: skip
    mark_running([SimpleNamespace(ports=each) for each in ports], NOW)
    assert one.writes == two.writes == [(MarkInterrupted(NOW),)]
    await settle()
    (record,) = caplog.records
    assert "will not go on: No space is left." in record.getMessage()


async def test_what_was_deleted_meanwhile_is_not_found():
    store, ports = await stored()
    await store.write(DeleteSession("s"))
    with pytest.raises(NotFound, match="No session s"):
        await take_up(ports, ROW)
    await settle()
    assert lease(store)[0] == "", "nobody holds what is gone"


@pytest.mark.parametrize(("before", "after"), [("closed", "closed"), ("idle", "idle")])
async def test_what_could_not_be_taken_up_is_left_as_it_was(before, after):
    row = msgspec.structs.replace(ROW, status=before)
    store, ports = await stored(cut(1), row=row)
    store.fail(StoreFull("No space is left."), after=1)
    with pytest.raises(StoreFull):
        await take_up(ports, row)
    await until(lambda: lease(store) == ("", 2))
    assert (await store.session("s")).status == after
    assert [one.marked_at > 0 for one in await store.turns("s")] == [True], "for the next time"


async def test_one_that_is_overtaken_takes_nothing_and_leaves_the_other_alone():
    store, ports = await stored(cut(1))
    read = store.history

    async def overtaken(session_id):
        store.history = read
        await store.write(TakeLease("session:s", "another", NOW))
        return await read(session_id)

    store.history = overtaken
    with pytest.raises(LeaseLost):
        await take_up(ports, ROW)
    await settle()
    assert lease(store) == ("another", 3)
    assert (await store.session("s")).status == "open"
    assert [one.marked_at > 0 for one in await store.turns("s")] == [True]
    assert len(await store.history("s")) == len(ENTRIES)


async def test_one_that_was_overtaken_once_looks_again():
    store, ports = await stored(cut(1))
    store.fail(LeaseLost("somebody was quicker"), after=1)
    assert [one.continues for one in (await take_up(ports, ROW)).queue] == ["t1"]
    store, ports = await stored(cut(1))
    for n in (1, 2, 3):
        store.fail(LeaseLost("somebody was quicker"), after=n)
    with pytest.raises(LeaseLost):
        await take_up(ports, ROW)
    await until(lambda: lease(store) == ("", 2))


async def test_where_something_has_to_run_a_note_settles_nothing():
    store, _ = await stored(turn(1, "queued"))
    assert not await note(store, Unfinished("s", 1), NOW, LIMITS)
    assert store.writes == []


@pytest.mark.parametrize(("cause", "told"), [("crash", ["t1"]), ("shutdown", [])])
def test_the_end_of_a_turn_is_told_once(cause, told):
    """A gateway that stopped has told it; one that died could not."""
    planned = plan([cut(1, cause=cause)], NOW, LIMITS)
    ends = [body for kind, body in events_of(planned, (), {}) if kind == "message.complete"]
    assert [body["turn_id"] for body in ends] == told


def test_what_is_returned_is_fenced_and_a_notice_is_kept_where_nothing_runs():
    planned = plan([cut(1, attempts=3), turn(2, "queued")], NOW, LIMITS)
    ops = ops_of(planned, "s", NOW)
    refused = {"state": "refused", "cause": "quarantine", "ended_at": NOW}
    assert ops[:3] == [TakeMark("t1"), FenceTurn("t2"), PatchTurn("t2", refused)]
    assert ops[3:] == [PatchSession("s", {"reason": NOTICE + planned.notice})]
    assert not [
        op for op in ops_of(plan([cut(1)], NOW, LIMITS), "s", NOW) if isinstance(op, PatchSession)
    ]


# --- all of them ----------------------------------------------------------------------------------


class Unfinishing:
    """The sessions of a gateway, as recovery sees them."""

    def __init__(self) -> None:
        self.profiles = self
        self.ports = SimpleNamespace(config=Config)
        self.broken: set[str] = set()
        self.errors: dict[str, Exception] = {}
        self.asked: list[str] = []
        self.at_once = self.most = 0

    def names(self):
        return ["one", "two"]

    @asynccontextmanager
    async def using_ports(self, name):
        if name in self.broken:
            raise StoreFull("No space is left.")
        yield SimpleNamespace(config=Config, store=Rows(name))

    def find(self, _session_id):
        return None

    async def recover(self, session_id, _profile):
        self.asked.append(session_id)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if session_id in self.errors:
            raise self.errors[session_id]


class Rows:
    def __init__(self, name):
        self.name = name

    async def unfinished(self):
        return [Unfinished(f"{self.name}{n}", 1) for n in range(3 if self.name == "one" else 200)]

    async def turns(self, session_id):
        return [turn(1, "queued")]


async def test_one_that_cannot_be_taken_up_keeps_nobody_else(root):
    sessions = Unfinishing()
    recovery = Recovery(root, sessions)
    sessions.errors = {
        "one0": StoreFull("No space is left."), "one1": NotFound("It is deleted."),
        "two0": LeaseLost("Somebody else has it."),
    }  # fmt: skip
    assert await recovery._pass() == 1, "the first is tried again, the others are over"
    assert len(sessions.asked) == 203
    assert recovery.opened == 200
    assert sessions.most == OPEN_AT_ONCE
    sessions.broken.add("one")
    assert await recovery._pass() == 1
    assert len(sessions.asked) == 403, "a profile that cannot be opened keeps no other"


async def test_where_nothing_has_to_run_no_session_is_opened(root):
    store, _ = await stored(cut(1, ago=9999.0))
    sessions, one = Unfinishing(), Unfinished("s", 1)
    recovery = Recovery(root, sessions)
    assert await recovery._take("one", store, one)
    assert (sessions.asked, recovery.opened, len(store.writes)) == ([], 0, 1)


async def test_who_has_opened_a_session_lets_its_turn_get_on_for_a_moment(root, clock):
    sessions, over = Unfinishing(), asyncio.Event()
    runs = SimpleNamespace(current=SimpleNamespace(over=over), queue=())
    sessions.find = lambda _session_id: runs
    passing = asyncio.create_task(Recovery(root, sessions)._pass())
    await settle()
    assert len(sessions.asked) == 3, "all of the first profile, which are waited for"
    clock.advance(PACE_S)
    await settle()
    assert len(sessions.asked) == 3 + OPEN_AT_ONCE
    over.set()
    await settle()
    assert (passing.done(), len(sessions.asked)) == (True, 203)


async def test_what_is_left_is_tried_again_and_ever_more_rarely(root, clock):
    sessions = Unfinishing()
    sessions.broken = {"one", "two"}
    work = Recovery(root, sessions).begin()
    for pause_s in (5.0, 10.0, 20.0, 40.0, 60.0, 60.0):
        await settle()
        assert clock.due_in(pause_s) == 1
        clock.advance(pause_s)
    sessions.broken = set()
    await settle()
    clock.advance(60.0)
    await until(work.done)
    assert sessions.asked
