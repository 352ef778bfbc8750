"""The calls of one step: judged in source order, run side by side, stored in source order.

Questions are asked one at a time before anything of the step runs. Calls that write run one after
another, so that two edits of one file cannot lose each other; all others run at the same time. Each
runs as a task of the turn's scope. Whatever happens, `close` leaves every call with a result.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Literal

import msgspec

from tenure.agent import approvals
from tenure.agent.approvals import Allow, Call, Deny, Verdict
from tenure.agent.faults import log_fault
from tenure.agent.ports import Decision, Ports, ToolFinished, ToolOutput, ToolStarted, Turn
from tenure.agent.writing import write_whole
from tenure.conversation import Message, ToolCall, Usage, as_object
from tenure.errors import TenureError, ToolError
from tenure.lifecycle.imports import import_off_loop
from tenure.lifecycle.lease import Lease
from tenure.tools.base import Effect, Tool, ToolResult, TypedTool
from tenure.tools.clip import clip

TOOL_GRACE_S = 5.0
"""Seconds that a cancelled tool may take to end."""

Outcome = Literal["done", "failed", "denied", "interrupted", "not_run"]
log = logging.getLogger("tenure.agent")


class PendingCall:
    """One call on its way to a result."""

    __slots__ = (
        "began_s", "call", "judged", "lease", "outcome", "problem", "result", "started", "stored",
        "task", "took_s", "tool",
    )  # fmt: skip

    def __init__(self, call: ToolCall, problem: str = "") -> None:
        self.call = call
        self.problem = problem
        """Why it cannot be taken up at all; empty if it can."""
        self.judged: Call | None = None
        """As the rules see it, once they have seen it."""
        self.tool: Tool | None = None
        self.lease: Lease[asyncio.Task[None]] | None = None
        self.task: asyncio.Task[None] | None = None
        """The lease's task, which outlives the lease."""
        self.started = False
        """`ToolStarted` is out."""
        self.began_s: float | None = None
        """When the tool began to run, in monotonic seconds; None before."""
        self.took_s = 0.0
        self.result: ToolResult | None = None
        self.outcome: Outcome = "done"
        self.stored = False

    def settle(self, outcome: Outcome, result: ToolResult) -> None:
        """Take the result."""
        self.outcome, self.result = outcome, result

    def fail(self, outcome: Outcome, text: str) -> None:
        """Take an error of one sentence as the result."""
        self.settle(outcome, ToolResult(text, is_error=True, summary=text))


class CallBatch:
    """The calls of one step. Belongs to one turn, used by its task alone."""

    def __init__(self, turn: Turn, ports: Ports, calls: tuple[PendingCall, ...]) -> None:
        self._turn = turn
        self._ports = ports
        self._tools = {tool.name: tool for tool in turn.tools}
        self.calls = calls
        self.refusal: Decision | None = None
        """A denial that ends the turn."""

    @property
    def denied(self) -> int:
        """How many calls a rule or a person refused."""
        return sum(pending.outcome == "denied" for pending in self.calls)

    @property
    def usage(self) -> Usage:
        """Tokens that the calls themselves spent on models."""
        return sum((p.result.usage for p in self.calls if p.result is not None), Usage())

    def signatures(self) -> list[tuple[str, str, str]]:
        """Name, arguments and result of every call, for noticing repetition."""
        return [
            (pending.call.name, pending.call.arguments, pending.result.text)
            for pending in self.calls
            if pending.result is not None
        ]

    async def run(self) -> None:
        """Judge, run and store all calls.

        Cancellation: `close` must follow, and does what is left to do.

        Raises:
            StoreError: the journal failed. ScopeClosed: the turn's scope was claimed.
        """
        for pending in self.calls:
            await self._write(self._announce(pending))
            if self.refusal is None:
                await self._judge(pending)
            else:
                pending.fail("not_run", "Not run: the turn was ended.")
        self._start_all()
        for pending in self.calls:
            if pending.task is not None:
                await asyncio.wait({pending.task})
            self._give_up_on(pending, "the gateway")
            await self._write(self._store(pending))

    async def close(self, who: str) -> None:
        """End what runs and store a result for every call that has none. Idempotent.

        Args:
            who: whoever stopped the turn, for the model ("the user").

        Raises:
            StoreError: the journal failed; history then ends with open calls, which
                `context.repair` mends when it is read.
        """
        leases = [pending.lease for pending in self.calls if pending.lease is not None]
        for lease in leases:
            lease.release_nowait()
        for lease in leases:
            await lease.release()
        for pending in self.calls:
            self._give_up_on(pending, who)
            if not pending.stored:
                await self._store(pending)

    # --- judging --------------------------------------------------------------------------------

    async def _announce(self, pending: PendingCall) -> None:
        call = pending.call
        await self._ports.journal.event(ToolStarted(call.id, call.name, call.arguments))
        pending.started = True

    async def _judge(self, pending: PendingCall) -> None:
        """Find the tool and whether it may run; else the call has its result already."""
        try:
            tool = self._find(pending)
            arguments = arguments_of(tool, pending.call.arguments)
        except ToolError as exc:
            pending.fail("failed", exc.message)
            return
        call = pending.call
        pending.judged = Call(
            call.id, tool.name, tool.effect, arguments, self._turn.cwd, self._turn.outputs
        )
        verdict = await self._verdict(pending.judged)
        if isinstance(verdict, Allow):
            pending.tool = tool
        elif isinstance(verdict, Deny):
            pending.fail("denied", f"Denied: {verdict.reason}")
        else:
            decision = await self._ports.asker.ask(verdict.question)
            if decision.choice != "deny":
                pending.tool = tool
            else:
                self._refuse(pending, decision)

    def _find(self, pending: PendingCall) -> Tool:
        if pending.problem:
            raise ToolError(pending.problem)
        tool = self._tools.get(pending.call.name)
        if tool is None:
            names = ", ".join(self._tools) or "none"
            raise ToolError(f"There is no tool {pending.call.name[:80]!r}; the tools are: {names}.")
        return tool

    def _refuse(self, pending: PendingCall, decision: Decision) -> None:
        reason = decision.text or "the user said no; ask what to do instead."
        pending.fail("denied", f"Denied: {reason}")
        if decision.end_turn:
            self.refusal = decision

    async def _verdict(self, judged: Call) -> Verdict:
        if approvals.reads_command(judged):
            await import_off_loop("tree_sitter_bash")
            await import_off_loop("tree_sitter")
        return approvals.decide(self._ports.asker.policy(), judged)

    # --- running --------------------------------------------------------------------------------

    def _start_all(self) -> None:
        """Start what may run, unless the turn was refused. Synchronous: all or a clear rest."""
        last_write: asyncio.Task[None] | None = None
        for pending in self.calls:
            tool = pending.tool
            if tool is None:
                continue
            if self.refusal is not None:
                pending.fail("not_run", "Not run: the turn was ended.")
                continue
            after = last_write if tool.effect is Effect.WRITE else None
            pending.lease = self._ports.scope.spawn(
                self._perform(pending, tool, after),
                name=f"tool {tool.name} {pending.call.id}",
                grace_s=TOOL_GRACE_S,
            )
            pending.task = pending.lease.value
            if tool.effect is Effect.WRITE:
                last_write = pending.task

    async def _perform(
        self, pending: PendingCall, tool: Tool, after: asyncio.Task[None] | None
    ) -> None:
        if after is not None:
            await asyncio.wait({after})
        if await self._held_back(pending):
            return
        if tool.effect not in {Effect.READ, Effect.NETWORK}:
            await self._ports.before_change()
        pending.began_s = self._ports.clock.monotonic()
        call = pending.call

        def show(text: str) -> None:
            self._ports.journal.transient(ToolOutput(call.id, text))

        try:
            context = self._ports.tool_context(call, show)
            assert pending.judged is not None
            context.judge = approvals.beyond(self._ports.asker.policy(), pending.judged)
            result = await tool.call(call.arguments, context)
        except TenureError as exc:
            pending.fail("failed", exc.message)
        except Exception as exc:  # noqa: BLE001 - a broken tool must not end the turn; it is logged
            error_id = log_fault(log, f"Tool {tool.name}", exc)
            pending.fail("failed", f"The tool {tool.name} failed inside; see log entry {error_id}.")
        else:
            pending.settle("failed" if result.is_error else "done", result)
        finally:
            pending.took_s = self._ports.clock.monotonic() - pending.began_s

    async def _held_back(self, pending: PendingCall) -> bool:
        """Whether plan mode came between the yes to a call and its beginning; then it is denied."""
        if pending.judged is None or not self._ports.asker.policy().planning:
            return False
        verdict = await self._verdict(pending.judged)
        if isinstance(verdict, Deny):
            pending.fail("denied", f"Denied: {verdict.reason}")
        return isinstance(verdict, Deny)

    def _give_up_on(self, pending: PendingCall, who: str) -> None:
        """Give a call that has no result the one that says so."""
        if pending.result is not None:
            return
        if pending.began_s is None:
            pending.fail("not_run", f"Not run: interrupted by {who}.")
        else:
            pending.fail("interrupted", f"Interrupted by {who}; the outcome is unknown.")

    # --- storing --------------------------------------------------------------------------------

    async def _store(self, pending: PendingCall) -> None:
        result = pending.result
        assert result is not None
        text = clip(result.text, 2 * self._turn.limits.tool_output_bytes_max) or "(no output)"
        message = Message("tool", text, tool_call_id=pending.call.id, is_error=result.is_error)
        finished = ToolFinished(
            pending.call.id, pending.call.name, text, result.summary, result.is_error,
            pending.outcome, pending.took_s, result.shown,
        )  # fmt: skip
        events = (finished,) if pending.started else ()
        await self._ports.journal.item(message, events=events, notes=result.notes)
        pending.stored = True

    async def _write(self, step: Coroutine[Any, Any, None]) -> None:
        await write_whole(self._ports.clock, step)


def arguments_of(tool: Tool, text: str) -> dict[str, Any]:
    """The arguments, an object, as the tool will read them; those at their default are left out.

    Raises:
        ToolError: they are not what the tool takes.
    """
    if isinstance(tool, TypedTool):
        parsed: dict[str, Any] = msgspec.to_builtins(tool.parse(text))
        return parsed
    arguments = as_object(text)
    assert arguments is not None, "`tidy` has seen to that"
    return arguments


def tidy(calls: list[ToolCall], step: int) -> tuple[PendingCall, ...]:
    """The calls as they may stand in history: with distinct ids and arguments that are an object.

    A provider may send no ids or the same twice, and a model may write anything as arguments; the
    same text sent back later would be refused by other providers.
    """
    tidied: list[PendingCall] = []
    seen: set[str] = set()
    for index, call in enumerate(calls):
        call_id, problem, arguments = call.id, "", call.arguments.strip() or "{}"
        if not call_id or call_id in seen:
            call_id = f"{call.id or 'call'}_{step}_{index}"
        seen.add(call_id)
        if as_object(arguments) is None:
            problem = f"The arguments of {call.name[:80]} are no JSON object: {arguments[:200]!r}."
            arguments = "{}"
        tidied.append(PendingCall(ToolCall(call_id, call.name, arguments), problem))
    return tuple(tidied)
