"""Sub-agents of one session: a tree of scopes below the turn that delegates.

Each runs the same loop as a turn does, with a memory of its own that is stored nowhere. Its report
is: the sub-agent stores it as a note of the session the moment it is over, and the call that
delegated marks that note as delivered in the write of its own result. So a crash, or an interrupt
of the parent, leaves what was finished to the session's next step, exactly once.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.agent.loop import run_turn
from tenure.agent.ports import (
    AssistantDone,
    Decision,
    Ports,
    Question,
    ToolFinished,
    ToolStarted,
    Turn,
    TurnEnd,
    TurnEvent,
    no_more_tools,
)
from tenure.agent.scratch import Scratch
from tenure.conversation import Message, ToolCall, Usage
from tenure.errors import TenureError, ToolError
from tenure.models.base import Model
from tenure.sessions.asking import TurnAsker
from tenure.sessions.projection import Wire, context_of
from tenure.sessions.subagents import LINE_CHARS, RUNNING, SubAgent
from tenure.tools.base import Task, Tool, ToolContext, ToolResult
from tenure.tools.clip import clip
from tenure.tools.delegate import DELEGATE
from tenure.tools.memory import MEMORY
from tenure.tools.plan import PLAN
from tenure.tools.todo import TODO

if TYPE_CHECKING:
    from tenure.lifecycle.scope import Scope
    from tenure.sessions.actor import Session
    from tenure.sessions.turns import LiveTurn

log = logging.getLogger("tenure.sessions")

GRACE_S = 45.0
"""How long a cancelled sub-agent may take to end: its own bound is 30 s, then it tells its end."""
_NOT_FOR_CHILDREN = frozenset({"terminal", "clarify", TODO, PLAN, MEMORY})
"""Of the session alone: what belongs to its person."""
_WHY = {
    "user": "the person stopped its turn",
    "client": "its session was closed",
    "shutdown": "the gateway was stopped",
    "timeout": "the time of its turn was over",
    "store": "the store failed",
    "denied": "a call was denied",
    "content_filter": "the model's provider refused to answer",
    "internal": "it failed inside; the log has the details",
}
"""Causes, for people and for the model above."""
ABOUT = """

You are a sub-agent: you do one task for another agent, which sees only your last answer. Nobody \
can be asked. Do the task, then report briefly what you found and did, with what the other needs."""


@dataclass(frozen=True, slots=True)
class Above:
    """Who delegates, and what it has: of that its sub-agents are made.

    Attributes:
        session: whose turn it is.
        turn: the turn.
        ports: those of the turn, or of the sub-agent that delegates.
        facts: likewise.
        one: the sub-agent that delegates; None for the turn itself.
    """

    session: Session
    turn: LiveTurn
    ports: Ports
    facts: Turn
    one: SubAgent | None = None


class Branch:
    """The `Delegates` of one turn, or of one sub-agent."""

    def __init__(self, above: Above) -> None:
        self._above = above

    async def run(self, tasks: tuple[Task, ...], ctx: ToolContext) -> ToolResult:
        """See `Delegates.run`."""
        session, parent = self._above.session, self._above.one
        rules = session.ports.config().delegation
        if len(tasks) > rules.tasks_max:
            raise ToolError(f"{len(tasks)} tasks are too many; the limit is {rules.tasks_max}.")
        for task in tasks:
            self._check(task)
        scope = ctx.scope.child(f"sub-agents of {ctx.call_id}")
        board = session.work.delegation
        children = [SubAgent(t, parent, n, len(tasks)) for n, t in enumerate(tasks)]
        for child in children:
            board.add(child)
            run = _Run(self._above, child, scope.child(child.id)).whole()
            child.task = scope.spawn(run, name=child.id, grace_s=GRACE_S).value
        try:
            await asyncio.wait({child.task for child in children if child.task})
        finally:
            await scope.close("the call is over")
        return _together(children)

    def _check(self, task: Task) -> None:
        if not task.goal.strip():
            raise ToolError("A task needs a goal.")
        known = {tool.name for tool in self._above.facts.tools}
        if unknown := set(task.tools) - known:
            raise ToolError(f"There is no tool {', '.join(sorted(unknown))} for a sub-agent.")


class _Run:
    """One sub-agent from its waiting to its report. Owned by its task's scope."""

    def __init__(self, above: Above, one: SubAgent, scope: Scope) -> None:
        self._above = above
        self._session = above.session
        self._one = one
        self._scope = scope
        self._tools_state: dict[str, Any] = {}
        self._scratch = Scratch(Message("user", one.wanted.goal), self._see)
        self._rules = self._session.ports.config().delegation

    async def whole(self) -> ToolResult:
        """Wait for a place, work, store the report. Its result is what the parent reads of it."""
        one, board = self._one, self._session.work.delegation
        try:
            self._tell("subagent.spawn_requested")
            async with board.place(one, self._rules.parallel_max):
                end = await self._work()
            return await self._report(end)
        finally:
            if not one.over:  # cancelled while it waited, or between two steps; or a fault of ours
                cut = isinstance(sys.exception(), asyncio.CancelledError)
                self._end(TurnEnd("interrupted" if cut else "failed", "internal"))
                self._session.journal.record_nowait([], [self._complete("")])
            self._scope.claim("over")
            await self._scope.close()

    async def _work(self) -> TurnEnd:
        one, clock = self._one, self._session.ports.clock
        one.state, one.began_at, one.moved_at = RUNNING, clock.wall(), clock.monotonic()
        self._scope.spawn(self._watch(), name="watch")
        try:
            turn = await self._turn()
        except TenureError as exc:
            one.why = exc.message
            return TurnEnd("failed", "model", error=exc)
        self._tell("subagent.start")
        return await run_turn(turn, self._ports(turn))

    async def _turn(self) -> Turn:
        facts, task = self._above.facts, self._one.wanted
        model: Model = facts.model
        if task.model:
            model = (await self._session.ports.models.pick(task.model, self._scope)).model
        self._one.model = model.ref
        system = facts.system if ABOUT in facts.system else facts.system + ABOUT
        steps = min(task.steps_max or self._rules.steps_max, self._rules.steps_max)
        limits = msgspec.structs.replace(facts.limits, steps_max=steps)
        return replace(
            facts,
            session_id=self._one.id,
            model=model,
            tools=self._tools(),
            system=system,
            limits=limits,
        )

    def _tools(self) -> tuple[Tool, ...]:
        deepest = self._one.depth >= self._rules.depth_max
        left_out = _NOT_FOR_CHILDREN | ({DELEGATE} if deepest else set())
        only = self._one.wanted.tools
        return tuple(
            tool
            for tool in self._above.facts.tools
            if tool.name not in left_out and (not only or tool.name in only)
        )

    def _more_tools(self) -> tuple[Tool, ...]:
        more = self._above.ports.more_tools()
        return tuple(tool for tool in more if tool.name not in _NOT_FOR_CHILDREN)

    def _ports(self, turn: Turn) -> Ports:
        above, turn_id = self._above.ports, self._above.turn.id
        asker = _SubAsker(self._session, turn_id, self._one)
        ports = replace(
            above,
            journal=self._scratch,
            asker=asker,
            scope=self._scope,
            steered=self._steered,
            noted=_nothing,
            more_tools=no_more_tools if self._one.wanted.tools else self._more_tools,
        )
        below = Branch(replace(self._above, ports=ports, facts=turn, one=self._one))

        def context(call: ToolCall, output: Callable[[str], None]) -> ToolContext:
            made = above.tool_context(call, output)
            made.scope = made.session = self._scope  # nothing of it outlives it
            made.state = self._tools_state
            made.delegates, made.propose, made.memory = below, None, None
            return made

        return replace(ports, tool_context=context)

    def _steered(self) -> Any:
        texts, self._one.steered = list(self._one.steered), deque()
        return self._take(texts) if texts else None

    async def _take(self, texts: list[str]) -> None:
        for text in texts:
            await self._scratch.item(Message("user", text))

    # --- watching -----------------------------------------------------------------------------

    def _see(self, event: TurnEvent) -> None:
        """Each event is progress; some are shown."""
        one = self._one
        one.moved_at = self._session.ports.clock.monotonic()
        if isinstance(event, ToolStarted):
            one.busy += 1
            one.calls += 1
            preview = context_of(event.arguments)
            one.say(f"{event.name} {preview}".rstrip())
            self._tell("subagent.tool", tool_name=event.name, tool_preview=preview)
        elif isinstance(event, ToolFinished):
            one.busy -= 1
            one.say(f"{event.name}: {event.summary or event.outcome}")
        elif isinstance(event, AssistantDone):
            one.steps, one.usage = event.step, one.usage + event.usage
            one.say(event.text)
            if event.text:
                self._tell("subagent.progress", text=clip(event.text, LINE_CHARS))
            if one.usage.input + one.usage.output > self._rules.tokens_max:
                one.cancel("timeout", f"its budget of {self._rules.tokens_max} tokens is used up")

    async def _watch(self) -> None:
        """End it when its time is over, or when it has not moved for too long."""
        one, clock, rules = self._one, self._session.ports.clock, self._rules
        ends_at = clock.monotonic() + rules.timeout_s
        while True:
            still = clock.monotonic() if one.busy else one.moved_at
            await clock.sleep(max(0.1, min(ends_at, still + rules.stall_s) - clock.monotonic()))
            if clock.monotonic() >= ends_at:
                one.cancel("timeout", f"its time of {rules.timeout_s:g} s is over")
            elif not one.busy and clock.monotonic() - one.moved_at >= rules.stall_s:
                one.cancel("timeout", f"it did nothing for {rules.stall_s:g} s")

    # --- its end ------------------------------------------------------------------------------

    def _end(self, end: TurnEnd) -> None:
        one = self._one
        one.ended_at = self._session.ports.clock.wall()
        one.state = end.state
        one.usage = end.usage if end.usage != Usage() else one.usage
        if end.state != "completed":
            one.why = one.why or (end.error.message if end.error else self._why(end))
        one.say(f"[{end.state}] {one.why}".rstrip())

    def _why(self, end: TurnEnd) -> str:
        """Why it did not complete, where nobody has said it: what ended it, it was not."""
        if end.state != "interrupted":
            return _WHY.get(end.cause, end.cause)
        if self._above.one is not None:
            return "the sub-agent above it was ended"
        cause = self._above.turn.cause
        return _WHY.get(cause, "its call was ended")

    async def _report(self, end: TurnEnd) -> ToolResult:
        """Store what came of it before anybody above hears of it."""
        one = self._one
        self._end(end)
        limit = self._above.facts.limits.tool_output_bytes_max // max(1, one.count)
        text = clip(end.text, max(1_000, limit))
        if not text and end.state == "interrupted":  # nothing came of it
            self._session.journal.record_nowait([], [self._complete("")])
            return ToolResult("", is_error=True, usage=one.usage)
        told = f"Sub-agent {one.id} ({one.goal}) {one.state}{_because(one)}: {text or 'no answer'}"
        report = self._session.notes.report
        notes = await report(told, self._complete(text), self._scratch.notes)
        return ToolResult(text, is_error=end.state != "completed", usage=one.usage, notes=notes)

    def _complete(self, text: str) -> Wire:
        return "subagent.complete", self._facts(summary=clip(text, LINE_CHARS))

    def _facts(self, **more: Any) -> dict[str, Any]:
        one = self._one
        took_s = max(0.0, (one.ended_at or self._session.ports.clock.wall()) - one.began_at)
        about = {"duration_seconds": round(took_s, 3)} if one.over else {}
        return {**one.facts(), **about, **({"text": one.why} if one.why else {}), **more}

    def _tell(self, kind: str, **more: Any) -> None:
        self._session.journal.transient(kind, self._facts(**more))


class _SubAsker(TurnAsker):
    """Asks in the name of the turn, and says which sub-agent wants it."""

    def __init__(self, session: Session, turn_id: str, one: SubAgent) -> None:
        super().__init__(session.questions, turn_id, session.work)
        self._one = one

    async def ask(self, question: Question) -> Decision:
        """See `Asker.ask`."""
        who = f"sub-agent {self._one.number}: {self._one.goal}"
        reason = f"{question.reason} (asked by {who})"
        return await super().ask(msgspec.structs.replace(question, reason=reason))


def _nothing() -> None:
    """Notes of the session are for its turns."""


def _because(one: SubAgent) -> str:
    return f" ({one.why})" if one.why else ""


def _together(children: list[SubAgent]) -> ToolResult:
    """The reports, in the order of the tasks."""
    parts: list[str] = []
    usage, failed = Usage(), 0
    notes: tuple[str, ...] = ()
    for child in children:
        task = child.task
        assert task is not None
        done = None if task.cancelled() or task.exception() else task.result()
        if error := (None if task.cancelled() else task.exception()):
            log.error("Sub-agent %s failed inside: %s", child.id, error, exc_info=error)
        text = done.text if done else ""
        failed += child.state != "completed"
        usage += child.usage
        notes += done.notes if done else ()
        head = f"[{child.index + 1}] {child.state}{_because(child)}"
        whole = len(children) == 1 and child.state == "completed"
        parts.append(text if whole else f"{head}\n{text or '(no answer)'}")
    count = len(children)
    told = f"{count - failed} of {count} sub-agents completed"
    return ToolResult(
        "\n\n".join(parts) or "(no answer)",
        is_error=failed == count,
        summary=told if count > 1 else children[0].state,
        usage=usage,
        notes=notes,
    )
