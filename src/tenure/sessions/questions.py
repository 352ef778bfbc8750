"""Questions to a person: stored, shown, answered once, settled when their turn ends.

A question is bound to its session, its turn and the principal who may answer it. It counts from the
commit of its row, and its answer from the commit of that. One is shown at a time, in the order in
which they were asked; all of them can be seen and answered by name. What is typed into a secret
question goes to the tool that asked, and nowhere else: not into the row, an event or a log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Literal, NamedTuple, cast, get_args

import msgspec

from tenure.agent.ports import Choice, Decision, Policy, Question
from tenure.config import ApprovalRule, ApprovalsConfig
from tenure.errors import AlreadyDecided, BadValue, NotFound, StoreError, TooLarge, Unauthorized
from tenure.ids import new_id
from tenure.lifecycle.deadline import deadline
from tenure.sessions.endings import Endings
from tenure.sessions.grants import Grants
from tenure.sessions.journal import Journal
from tenure.sessions.projection import Wire
from tenure.store.base import (
    ApprovalRow,
    DecideApproval,
    FenceTurn,
    InsertApproval,
    Op,
    RevokeApproval,
)

Kind = Literal["approval", "clarify", "secret", "sudo"]
OWNER = "owner"
"""The one principal that there is: whoever holds the home's token."""
ANSWER_CHARS_MAX = 32_768
_NOBODY = (
    "Nobody can be asked here, so it was denied; run with --yes to allow it, or allow it by a rule "
    "in config.toml."
)

_NOT_EVEN_YES = (
    "Nobody can be asked here, so it was denied: it cannot be judged, and where rules deny "
    "commands that is asked even with --yes. Say it as plain commands."
)


class Yes(NamedTuple):
    """What a yes does besides: in its own write, and when that is stored, or is not."""

    ops: list[Op]
    events: list[Wire]
    ended: Callable[[bool], None]


class Open:
    """A question that waits.

    Attributes:
        kind: what is asked for.
        request_id: its name.
        turn_id: the turn that waits.
        principal: who may answer.
        payload: what clients are shown.
        grants: what "session" and "always" would allow.
        answer: a `Choice`, or what was typed; None when nobody answered in time.
        deciding: an answer on its way to the store.
        granted: the writing of what "always" granted.
        yes: says what a yes does besides.
        words: what the person says to the agent with a no.
    """

    __slots__ = (
        "answer", "deciding", "granted", "grants", "kind", "payload", "principal", "request_id",
        "turn_id", "words", "yes",
    )  # fmt: skip

    def __init__(self, kind: Kind, turn_id: str, principal: str) -> None:
        self.kind = kind
        self.request_id = new_id("ask")
        self.turn_id = turn_id
        self.principal = principal
        self.payload: dict[str, Any] = {"request_id": self.request_id, "turn_id": turn_id}
        self.grants: tuple[ApprovalRule, ...] = ()
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.deciding: asyncio.Future[bool] | None = None
        self.granted: asyncio.Future[None] | None = None
        self.yes: Callable[[], Yes] | None = None
        self.words = ""

    @property
    def request(self) -> Wire:
        """The event that shows it."""
        return f"{self.kind}.request", self.payload


class Questions:
    """The open questions of one session, and what was allowed in it.

    Attributes:
        interactive: whether somebody can be asked; otherwise an approval is a deny, and everything
            else goes unanswered, at once.
        bypass: who lets pass what would be asked (``--yes``); empty: nobody.
    """

    __slots__ = (
        "_changed", "_endings", "_granted", "_grants", "_journal", "_open", "_rules", "_timeout_s",
        "bypass", "interactive",
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
        self._open: dict[str, Open] | None = None
        self._granted: dict[str, tuple[ApprovalRule, ...]] | None = None
        self.bypass = ""
        self.interactive = True

    # --- what is there ------------------------------------------------------------------------

    @property
    def shown(self) -> Open | None:
        """The question on show."""
        return next(iter(self._open.values()), None) if self._open else None

    @property
    def pending(self) -> list[dict[str, Any]]:
        """All that wait, the one on show first, for a client that comes late."""
        return [{"kind": entry.kind, **entry.payload} for entry in (self._open or {}).values()]

    @property
    def pending_approval(self) -> dict[str, Any] | None:
        """The one on show, if it is an approval."""
        entry = self.shown
        return entry.payload if entry is not None and entry.kind == "approval" else None

    def about(self, tool: str) -> Open | None:
        """The first approval that waits for a call of `tool`."""
        return next((e for e in (self._open or {}).values() if e.payload.get("tool") == tool), None)

    def waits_for(self, request_id: str) -> bool:
        """Whether a question of this name is open here."""
        return bool(self._open) and request_id in (self._open or ())

    def follow(self, config: ApprovalsConfig) -> None:
        """Take rules and patience from `config`, for the turn that begins."""
        self._rules, self._timeout_s = config.rules, config.timeout_s

    def policy(self) -> Policy:
        """What is decided already."""
        session = tuple(rule for rules in (self._granted or {}).values() for rule in rules)
        return Policy(rules=self._rules, grants=session + self._grants.rules, yes=bool(self.bypass))

    def let_pass(self, source: str) -> None:
        """From now on nothing is asked (`source` says who wants that), or it is again (empty).

        Rules that deny still deny. Everyone who listens is told, durably.
        """
        if source != self.bypass:
            self.bypass = source
            mode = {"mode": "yes" if source else "ask", "source": source}
            self._journal.record_nowait([], [("approval.mode", mode)])

    # --- asking -------------------------------------------------------------------------------

    async def ask(
        self,
        question: Question,
        turn_id: str,
        principal: str = OWNER,
        yes: Callable[[], Yes] | None = None,
    ) -> Decision:
        """Whether a call may run; bounded, then it is a deny.

        Args:
            question: what is shown.
            turn_id: the turn that waits.
            principal: who may answer.
            yes: asked, the moment that somebody says yes, what that does besides.
        """
        if not self.interactive:
            return Decision("deny", _NOT_EVEN_YES if self.bypass else _NOBODY)
        entry = Open("approval", turn_id, principal)
        entry.payload |= _approval(question)
        entry.grants, entry.yes = question.grants, yes
        choice = await self._wait(entry)
        if choice is None:
            return Decision("deny", f"Nobody answered within {self._timeout_s:.0f} seconds.")
        return Decision(choice, entry.words)

    async def ask_for(
        self, kind: Kind, turn_id: str, facts: dict[str, Any], principal: str = OWNER
    ) -> str | None:
        """What somebody types; None if nobody does, or wants to, in time.

        Args:
            kind: clarify, secret or sudo.
            turn_id: the turn that waits.
            facts: what is shown beside the names.
            principal: who may answer.
        """
        if not self.interactive:
            return None
        entry = Open(kind, turn_id, principal)
        entry.payload |= facts
        typed: str | None = await self._wait(entry)
        return typed or None

    async def _wait(self, entry: Open) -> Any:
        """Store and show a question, and wait for its answer; None when time is up."""
        self._open = self._open or {}
        first = not self._open
        self._open[entry.request_id] = entry
        row = ApprovalRow(
            entry.request_id,
            self._journal.session_id,
            entry.turn_id,
            {**entry.payload, "grants": msgspec.to_builtins(entry.grants)},
            self._journal.clock.wall(),
            kind=entry.kind,
            principal=entry.principal,
        )
        ops: list[Op] = [FenceTurn(entry.turn_id, runs=True), InsertApproval(row)]
        try:
            await asyncio.shield(self._journal.record(ops, [entry.request] if first else []))
            self._changed()
            return await self._answer(entry)
        finally:
            self._drop(entry)

    async def _answer(self, entry: Open) -> Any:
        try:
            async with deadline(self._journal.clock, self._timeout_s):
                return await asyncio.shield(entry.answer)
        except TimeoutError:
            word = "denied" if entry.kind == "approval" else "void"
            text = f"{word} (no answer within {self._timeout_s:.0f} s)"
        await self._settle(entry, None, text)
        return await asyncio.shield(entry.answer)  # ours, or somebody's of that very moment

    # --- answering ----------------------------------------------------------------------------

    async def respond(
        self, request_id: str, choice: str, *, everything: bool, principal: str = OWNER
    ) -> int:
        """Answer one approval (by default the one shown), or all; after the commit it counts.

        Returns:
            How many were answered; one of several that somebody else has decided meanwhile is none.

        Raises:
            BadValue: no such choice.
            AlreadyDecided: no open approval has this name.
            Unauthorized: another principal is asked; the question stays open.
            StoreError: the answer, or the grant of "always", could not be stored.
        """
        if choice not in get_args(Choice):
            raise BadValue(f"{choice[:40]!r} is no answer; use once, session, always or deny.")
        picked = [e for e in (self._open or {}).values() if e.kind == "approval"]
        if request_id:
            picked = [e for e in picked if e.request_id == request_id]
            if not picked:
                raise _decided(request_id)
        # A plan is approved by whoever has it before their eyes, never along with other things.
        picked = [e for e in picked if e.yes is None or e is self.shown or not everything]
        answered = 0
        for entry in picked if everything else picked[:1]:
            _check(entry, principal)
            if choice not in entry.payload["choices"]:
                raise BadValue(
                    f"{choice[:40]!r} is not offered for this call; use "
                    f"{', '.join(entry.payload['choices'])}."
                )
            if await self._settle(entry, cast("Choice", choice), choice):
                answered += 1
            elif not everything:
                raise _decided(entry.request_id)
            if entry.granted is not None:
                await asyncio.shield(entry.granted)
        return answered

    async def reply(
        self, request_id: str, kinds: tuple[Kind, ...], typed: str, principal: str = OWNER
    ) -> None:
        """Answer a question that is not an approval; after the commit it counts.

        Raises:
            AlreadyDecided: no open question of these kinds has this name.
            Unauthorized: another principal is asked; the question stays open.
            TooLarge: over 32,768 characters.
            StoreError: that it was answered could not be stored; it stays open.
        """
        entry = (self._open or {}).get(request_id)
        if entry is None or entry.kind not in kinds:
            raise _decided(request_id)
        _check(entry, principal)
        if len(typed) > ANSWER_CHARS_MAX:
            raise TooLarge(f"An answer has at most {ANSWER_CHARS_MAX:,} characters.")
        if not await self._settle(entry, typed, "answered" if typed else "refused"):
            raise _decided(request_id)

    async def _settle(self, entry: Open, answer: Any, decision: str) -> bool:
        """Decide a question, unless somebody else's answer is already on its way and arrives.

        Returns:
            Whether this answer was the first.
        """
        while entry.deciding is not None:
            with suppress(StoreError):
                if await asyncio.shield(entry.deciding):
                    return False
            await asyncio.sleep(0)
        return await asyncio.shield(self._decide(entry, answer, decision))

    def _decide(self, entry: Open, answer: Any, decision: str) -> asyncio.Future[bool]:
        """Store a decision; with the commit it counts, whoever still waits for that."""
        decided = entry.deciding = asyncio.get_running_loop().create_future()
        events: list[Wire] = [("question.settled", _settled(entry, decision))]
        if answer is None:
            events.append((f"{entry.kind}.expire", {"request_id": entry.request_id}))
        now = self._journal.clock.wall()
        ops: list[Op] = [DecideApproval(entry.request_id, decision, now)]
        yes = entry.yes() if entry.yes is not None and answer == "once" else None
        if yes is not None:
            ops, events = [*ops, *yes.ops], [*events, *yes.events]
        commit = self._journal.record(ops, events)

        def settle(done: asyncio.Future[list[Any]]) -> None:
            entry.deciding = None
            error = done.exception()
            first = error is None and bool(done.result()[1])
            if yes is not None:
                yes.ended(first)
            if error is not None:
                decided.set_exception(error)
                decided.exception()  # nobody need be waiting
                return
            if first:
                self._take(entry, answer)
            decided.set_result(first)

        commit.add_done_callback(settle)
        return decided

    def _take(self, entry: Open, answer: Any) -> None:
        """Let a stored answer count, then show the next question."""
        if answer == "session" and entry.kind == "approval":
            self._granted = {**(self._granted or {}), entry.request_id: entry.grants}
        elif answer == "always" and entry.kind == "approval":
            entry.granted = self._grants.add(entry.grants)
        if not entry.answer.done():
            entry.answer.set_result(answer)
        self._remove(entry)

    def _drop(self, entry: Open) -> None:
        """The turn does not wait any more: void what it asked, if it is open, without waiting."""
        if not self.waits_for(entry.request_id):
            return
        if entry.deciding is None:
            self._void(entry)
        else:
            entry.deciding.add_done_callback(lambda done: self._void_unless(done, entry))
        self._remove(entry)

    def _void_unless(self, done: asyncio.Future[bool], entry: Open) -> None:
        if done.exception() is not None or not done.result():
            self._void(entry)

    def _void(self, entry: Open) -> None:
        decision = "void (turn ended)"
        _ = self._endings.store(
            [DecideApproval(entry.request_id, decision, self._journal.clock.wall())],
            [
                ("question.settled", _settled(entry, decision)),
                (f"{entry.kind}.expire", {"request_id": entry.request_id}),
            ],
        )

    def _remove(self, entry: Open) -> None:
        shown = self.shown is entry
        if self._open is None or self._open.pop(entry.request_id, None) is None:
            return
        if not self._open:
            self._open = None
        elif shown:
            self._journal.record_nowait([], [next(iter(self._open.values())).request])
        self._changed()

    # --- what was allowed for the session -----------------------------------------------------

    def load(self, rows: Iterable[ApprovalRow]) -> None:
        """Take over what was allowed in an earlier life of the session."""
        for row in rows:
            grants = msgspec.convert(row.question.get("grants", []), tuple[ApprovalRule, ...])
            self._granted = {**(self._granted or {}), row.id: grants}

    @property
    def granted(self) -> dict[str, tuple[ApprovalRule, ...]]:
        """What was allowed for this session, by the name of the question."""
        return dict(self._granted or {})

    async def revoke(self, request_id: str) -> None:
        """Take back what was allowed by one answer; from then on it is asked again.

        Raises:
            NotFound: nothing was allowed under that name.
            StoreError: it could not be stored; it is still allowed.
        """
        if self._granted is None or request_id not in self._granted:
            raise NotFound(f"Nothing was allowed for this session under {request_id[:40]!r}.")
        now = self._journal.clock.wall()
        await asyncio.shield(self._journal.record([RevokeApproval(request_id, now)]))
        # Somebody else may have taken back the last of them meanwhile.
        granted = self._granted or {}
        self._granted = {k: rules for k, rules in granted.items() if k != request_id} or None


def _check(entry: Open, principal: str) -> None:
    if entry.principal != principal:
        raise Unauthorized(f"Only {entry.principal} may answer question {entry.request_id}.")


def _decided(request_id: str) -> AlreadyDecided:
    return AlreadyDecided(
        f"Question {request_id[:40]} is not open any more: it was already decided, or its turn has "
        "ended."
    )


def _settled(entry: Open, decision: str) -> dict[str, Any]:
    return {"request_id": entry.request_id, "kind": entry.kind, "decision": decision}


def _approval(question: Question) -> dict[str, Any]:
    lasting = bool(question.grants)
    return {
        "tool": question.tool,
        "effect": str(question.effect),
        "command": question.subject,
        "cwd": question.cwd,
        "description": question.reason,
        "place": question.place,
        "patterns": list(question.patterns),
        "choices": ["once", "session", "always", "deny"] if lasting else ["once", "deny"],
        "allow_permanent": lasting,
    } | ({"revision": question.revision} if question.revision else {})
