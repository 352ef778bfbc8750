"""Questions to a person: stored, shown, answered once, denied when nobody answers in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast, get_args

from tenure.agent.ports import Choice, Decision, Policy, Question
from tenure.config import ApprovalRule
from tenure.errors import AlreadyDecided, BadValue
from tenure.ids import new_id
from tenure.lifecycle.deadline import deadline
from tenure.sessions.endings import Endings
from tenure.sessions.grants import Grants
from tenure.sessions.journal import Journal
from tenure.store.base import ApprovalRow, DecideApproval, FenceTurn, InsertApproval


class _Open:
    """A question that waits."""

    __slots__ = ("answer", "granted", "question", "request_id", "turn_id")

    def __init__(self, request_id: str, turn_id: str, question: Question) -> None:
        self.request_id = request_id
        self.turn_id = turn_id
        self.question = question
        self.answer: asyncio.Future[Choice] = asyncio.get_running_loop().create_future()
        self.granted: asyncio.Future[None] | None = None
        """The writing of what "always" granted."""


class Questions:
    """The open questions of one session. Only the first is shown; the next follows its answer."""

    __slots__ = (
        "_changed", "_endings", "_grants", "_journal", "_open", "_rules", "_session_grants",
        "_timeout_s", "auto_approve", "interactive",
    )  # fmt: skip

    def __init__(
        self,
        journal: Journal,
        endings: Endings,
        grants: Grants,
        rules: tuple[ApprovalRule, ...],
        timeout_s: float,
        changed: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._endings = endings
        self._grants = grants
        self._rules = rules
        self._timeout_s = timeout_s
        self._changed = changed
        self._open: dict[str, _Open] | None = None
        self._session_grants: tuple[ApprovalRule, ...] = ()
        self.auto_approve = False
        self.interactive = True

    @property
    def shown(self) -> dict[str, Any] | None:
        """The payload of the question on show, for a client that comes late."""
        first = next(iter(self._open.values()), None) if self._open else None
        return None if first is None else _payload(first)

    def policy(self) -> Policy:
        """What is decided already."""
        return Policy(
            rules=self._rules,
            grants=self._session_grants + self._grants.rules,
            yes=self.auto_approve,
        )

    async def ask(self, question: Question, turn_id: str) -> Decision:
        """Show `question` and wait for its answer, bounded; then it is a deny."""
        if not self.interactive:
            return Decision(
                "deny",
                "Nobody can be asked here, so it was denied; run with --yes to allow it, or allow "
                "it by a rule in config.toml.",
            )
        entry = _Open(new_id("ask"), turn_id, question)
        self._open = self._open or {}
        first = not self._open
        self._open[entry.request_id] = entry
        row = ApprovalRow(
            entry.request_id,
            self._journal.session_id,
            turn_id,
            _payload(entry),
            self._journal.clock.wall(),
        )
        events = [("approval.request", _payload(entry))] if first else []
        try:
            await asyncio.shield(
                self._journal.record([FenceTurn(turn_id), InsertApproval(row)], events)
            )
            self._changed()
            return await self._answer(entry)
        finally:
            self._drop(entry)

    async def _answer(self, entry: _Open) -> Decision:
        try:
            async with deadline(self._journal.clock, self._timeout_s):
                return Decision(await asyncio.shield(entry.answer))
        except TimeoutError:
            text = f"denied (no answer within {self._timeout_s:.0f} s)"
        if await asyncio.shield(self._decide(entry, "deny", text)):
            return Decision("deny", f"Nobody answered within {self._timeout_s:.0f} seconds.")
        return Decision(await asyncio.shield(entry.answer))  # somebody did, in that moment

    async def respond(self, request_id: str, choice: str, *, everything: bool) -> int:
        """Answer one question (by default the one shown), or all; after the commit it counts.

        Raises:
            BadValue: no such choice.
            AlreadyDecided: no open question has this id.
            StoreError: the answer, or the grant of "always", could not be stored.
        """
        if choice not in get_args(Choice):
            raise BadValue(f"{choice!r} is no answer; use once, session, always or deny.")
        waiting = self._open or {}
        if request_id and request_id not in waiting:
            raise AlreadyDecided(
                f"Question {request_id[:40]} is not open any more; it was answered or has ended."
            )
        picked = [waiting[request_id]] if request_id else list(waiting.values())
        if not everything:
            picked = picked[:1]
        for entry in picked:
            if not await asyncio.shield(self._decide(entry, cast("Choice", choice), choice)):
                raise AlreadyDecided(f"Question {entry.request_id} was decided already.")
            if entry.granted is not None:
                await asyncio.shield(entry.granted)
        return len(picked)

    def _decide(self, entry: _Open, choice: Choice, decision: str) -> asyncio.Future[bool]:
        """Store the decision; with the commit it counts, whoever still waits for that.

        Returns:
            Whether it was the first; nothing happened otherwise.
        """
        decided: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        now = self._journal.clock.wall()
        commit = self._journal.record([DecideApproval(entry.request_id, decision, now)])

        def settle(done: asyncio.Future[list[Any]]) -> None:
            if (error := done.exception()) is not None:
                decided.set_exception(error)
                decided.exception()  # nobody need be waiting
                return
            first = bool(done.result()[1])
            if first:
                self._take(entry, choice)
            decided.set_result(first)

        commit.add_done_callback(settle)
        return decided

    def _take(self, entry: _Open, choice: Choice) -> None:
        """Let a stored answer count, then show the next question."""
        if choice == "session":
            self._session_grants += entry.question.grants
        elif choice == "always":
            entry.granted = self._grants.add(entry.question.grants)
        if not entry.answer.done():
            entry.answer.set_result(choice)
        self._remove(entry)

    def _drop(self, entry: _Open) -> None:
        """The turn does not wait any more: void what it asked, if it is open, without waiting."""
        if self._open and entry.request_id in self._open:
            now = self._journal.clock.wall()
            self._endings.store(
                [DecideApproval(entry.request_id, "void (turn ended)", now)],
                [("approval.expire", {"request_id": entry.request_id})],
            )
            self._remove(entry)

    def _remove(self, entry: _Open) -> None:
        if self._open is None or self._open.pop(entry.request_id, None) is None:
            return
        if self._open:
            following = next(iter(self._open.values()))
            self._journal.transient("approval.request", _payload(following))
        else:
            self._open = None
        self._changed()


class TurnAsker:
    """One turn's `Asker`: the session's questions under this turn's name."""

    __slots__ = ("_questions", "_turn_id")

    def __init__(self, questions: Questions, turn_id: str) -> None:
        self._questions = questions
        self._turn_id = turn_id

    def policy(self) -> Policy:
        """The rules and grants as they are now."""
        return self._questions.policy()

    async def ask(self, question: Question) -> Decision:
        """See `Asker.ask`."""
        return await self._questions.ask(question, self._turn_id)


def _payload(entry: _Open) -> dict[str, Any]:
    question = entry.question
    lasting = bool(question.grants)
    return {
        "request_id": entry.request_id,
        "turn_id": entry.turn_id,
        "tool": question.tool,
        "effect": str(question.effect),
        "command": question.subject,
        "cwd": question.cwd,
        "description": question.reason,
        "patterns": list(question.patterns),
        "choices": ["once", "session", "always", "deny"] if lasting else ["once", "deny"],
        "allow_permanent": lasting,
    }
