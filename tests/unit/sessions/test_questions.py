"""Questions in their instants: stored before they are shown, decided by one commit."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from tenure.agent.ports import Question
from tenure.config import ApprovalRule
from tenure.errors import AlreadyDecided, BadValue, NotFound, StoreFull
from tenure.sessions.questions import Questions
from tenure.store.base import FenceTurn
from tenure.testing.clock import ManualClock, settle
from tenure.tools.base import Effect

FULL = StoreFull("No space.")
RULE = ApprovalRule(decision="allow", tool="shell", command="make")


def question(*, lasting: bool = True) -> Question:
    return Question(
        "c1", "shell", Effect.EXECUTE, "make", "/", "A test.", grants=(RULE,) if lasting else ()
    )


class Journal:
    """Commits that the test ends; each with what it was to store and to tell."""

    session_id = "s1"

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.writes: list[tuple[list[object], list[str], asyncio.Future[list[object]]]] = []

    def record(self, ops, events=(), **_):
        commit = asyncio.get_running_loop().create_future()
        self.writes.append((list(ops), [kind for kind, _ in events], commit))
        return commit

    def record_nowait(self, ops, events=(), **_) -> None:
        self.record(ops, events)

    async def done(self, error: Exception | None = None, *, first: bool = True) -> None:
        """End the commit that was asked for last."""
        commit = self.writes[-1][2]
        if error is not None:
            commit.set_exception(error)
            commit.exception()
        else:
            commit.set_result([None, first])
        await settle()


class Desk:
    """Questions over such a journal, and somebody who asks one."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.voided: list[list[object]] = []
        endings = SimpleNamespace(store=lambda ops, _events: self.voided.append(ops))
        grants = SimpleNamespace(rules=(), add=lambda _rules: None)
        self.questions = Questions(self.journal, endings, grants, (), 60.0, bool)

    async def asks(self, *, lasting: bool = True, turn: str = "t1"):
        """A question that is stored and shown; the task that waits for its answer."""
        asking = asyncio.ensure_future(self.questions.ask(question(lasting=lasting), turn))
        await settle()
        await self.journal.done()
        return asking

    async def says(self, choice: str = "once", **which):
        """An answer on its way to the store."""
        answer = asyncio.ensure_future(
            self.questions.respond(which.get("request_id", ""), choice, everything=False)
        )
        await settle()
        return answer


@pytest.fixture
async def desk() -> Desk:
    return Desk()


async def test_a_question_is_of_a_turn_that_runs_and_is_shown_when_it_is_stored(desk):
    asking = asyncio.ensure_future(desk.questions.ask(question(), "t1"))
    await settle()
    ops, told, commit = desk.journal.writes[0]
    assert ops[0] == FenceTurn("t1", runs=True) and told == ["approval.request"]
    desk.journal.clock.advance(1000)
    await settle()
    assert not asking.done(), "its time begins when it is stored"
    commit.set_exception(FULL)
    commit.exception()
    await settle()
    assert asking.done() and isinstance(asking.exception(), StoreFull)
    assert desk.questions.pending == []


async def test_one_is_shown_at_a_time(desk):
    first = await desk.asks()
    second = await desk.asks()
    assert [told for _, told, _ in desk.journal.writes] == [["approval.request"], []]
    answer = await desk.says()
    await desk.journal.done()
    assert await answer == 1 and (await first).choice == "once"
    assert desk.journal.writes[-1][1] == ["approval.request"]
    second.cancel()
    await settle()


async def test_nobody_answers(desk):
    asking = await desk.asks()
    desk.journal.clock.advance(60)
    await settle()
    assert desk.journal.writes[-1][1] == ["question.settled", "approval.expire"]
    await desk.journal.done()
    assert asking.done() and asking.result().choice == "deny"


async def test_what_is_not_offered_cannot_be_answered(desk):
    asking = await desk.asks(lasting=False)
    answer = await desk.says("session")
    assert answer.done()
    with pytest.raises(BadValue, match="not offered"):
        answer.result()
    asking.cancel()
    await settle()


async def test_an_answer_counts_though_its_giver_has_left(desk):
    asking = await desk.asks()
    answer, late = await desk.says(), await desk.says("deny")
    answer.cancel()
    await settle()
    assert not late.done(), "it waits for the first one"
    await desk.journal.done()
    assert asking.done() and asking.result().choice == "once"
    with pytest.raises(AlreadyDecided):
        await late


async def test_an_answer_that_could_not_be_stored_leaves_the_question_open(desk):
    asking = await desk.asks()
    answer = await desk.says("deny")
    await desk.journal.done(FULL)
    with pytest.raises(StoreFull):
        await answer
    assert not asking.done() and len(desk.questions.pending) == 1
    again = await desk.says()
    assert len(desk.journal.writes) == 3, "the first one is not waited for any more"
    await desk.journal.done()
    assert await again == 1 and (await asking).choice == "once"


async def test_an_answer_that_the_store_has_already_is_none(desk):
    asking = await desk.asks()
    answer = await desk.says()
    await desk.journal.done(first=False)
    with pytest.raises(AlreadyDecided):
        await answer
    assert not asking.done()
    asking.cancel()
    await settle()


async def test_of_two_typed_answers_one_counts(desk):
    asking = asyncio.ensure_future(desk.questions.ask_for("clarify", "t1", {}))
    await settle()
    await desk.journal.done()
    name = desk.questions.shown.request_id
    typing = [
        asyncio.ensure_future(desk.questions.reply(name, ("clarify",), text)) for text in "ab"
    ]
    await settle()
    await desk.journal.done()
    await asyncio.wait(typing)
    assert typing[0].exception() is None and isinstance(typing[1].exception(), AlreadyDecided)
    assert await asking == "a"


@pytest.mark.parametrize(("error", "voided"), [(None, 0), (FULL, 1)])
async def test_who_stops_waiting_voids_what_is_not_answered(desk, error, voided):
    asking = await desk.asks()
    answer = await desk.says()
    asking.cancel()
    await settle()
    assert desk.questions.pending == [] and desk.voided == []
    await desk.journal.done(error)
    await asyncio.wait({answer})
    assert len(desk.voided) == voided


async def test_a_mode_is_told_when_it_changes(desk):
    desk.questions.let_pass("a test")
    desk.questions.let_pass("a test")
    desk.questions.let_pass("")
    assert [told for _, told, _ in desk.journal.writes] == [["approval.mode"]] * 2


async def test_only_what_was_allowed_is_taken_back(desk):
    asking = await desk.asks()
    answer = await desk.says("session")
    await desk.journal.done()
    await answer
    await asking
    (name,) = desk.questions.granted
    revoking = asyncio.ensure_future(desk.questions.revoke("ask_unknown"))
    await settle()
    assert revoking.done() and isinstance(revoking.exception(), NotFound)
    revoking = asyncio.ensure_future(desk.questions.revoke(name))
    await settle()
    await desk.journal.done()
    await revoking
    assert desk.questions.granted == {}
