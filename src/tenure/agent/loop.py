"""One turn: the model is asked, its calls are run, their results go back, until it stops.

`run_turn` owns nothing and shares no flag with any other turn. To interrupt it, cancel the task
that runs it: at whatever await that arrives, the finishing writes leave history valid (every call
has a result, the text said so far is kept) and the turn returns how it ended. A journal write is
never cut in two.

Order of one step: steered input is stored; the request is fitted into the window; the answer is
streamed, then stored with its calls; the calls run and their results are stored in source order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, NamedTuple

from tenure.agent import context
from tenure.agent.compaction import compact
from tenure.agent.context import Gauge
from tenure.agent.faults import log_fault
from tenure.agent.ports import (
    AssistantDone,
    ContextFilling,
    EndState,
    Ports,
    StatusNote,
    StepStarted,
    Turn,
    TurnEnd,
)
from tenure.agent.repeats import Repeats
from tenure.agent.showing import Shown, check_sight, show
from tenure.agent.stream import Answer, AnswerStatus, read_answer
from tenure.agent.toolcalls import CallBatch, PendingCall, tidy
from tenure.agent.writing import write_whole
from tenure.conversation import Message, ToolCall, Usage
from tenure.errors import (
    InternalError,
    ModelError,
    ModelGarbage,
    ScopeClosed,
    StoreError,
    TenureError,
)
from tenure.lifecycle.uninterrupted import uninterrupted
from tenure.models.base import Finished, ModelRequest

FINISH_S = 30.0
"""Bound of everything after an interrupt, in seconds: tools that end badly (7) and a slow store."""
CAUSES = frozenset({"user", "client", "timeout", "shutdown", "crash"})
CLOSING_NOTE = "[Tools are off now: {why}. Say briefly what you have and what is missing.]"
log = logging.getLogger("tenure.agent")


async def run_turn(turn: Turn, ports: Ports) -> TurnEnd:
    """Run one turn to its end. The prompt stands in the journal already.

    Returns:
        How it ended, exactly once, also for failures: no `TenureError` is raised.

    Cancellation:
        Answered, not passed on: the result is "interrupted", with the cancel's message as its
        cause if that is one of `CAUSES`, else "user". Returns within `FINISH_S` seconds. A cancel
        that comes when the last answer is already stored changes nothing.
    """
    run = _Run(turn, ports)
    try:
        return await run.steps()
    except asyncio.CancelledError as exc:
        if run.ended is not None:
            return run.ended
        cause = str(exc.args[0]) if exc.args and exc.args[0] in CAUSES else "user"
        await run.finish("interrupted", f"the {cause}" if cause != "timeout" else "a timeout")
        return run.end("interrupted", cause)
    except ScopeClosed:
        await run.finish("interrupted", "the shutdown")
        return run.end("interrupted", "shutdown")
    except TenureError as exc:
        await run.finish("error", "a failure")
        return run.end("failed", _cause_of(exc), exc)
    except Exception as exc:  # noqa: BLE001 - the border of the turn: a fault is told with an id
        error_id = log_fault(log, f"Turn {turn.id}", exc)
        text = f"The turn failed inside; `tenure logs {error_id}` has the details."
        error = InternalError(text, error_id=error_id)
        error.__cause__ = exc
        await run.finish("error", "a failure")
        return run.end("failed", "internal", error)


def _cause_of(error: TenureError) -> str:
    if isinstance(error, ModelError):
        return "model"
    return "store" if isinstance(error, StoreError) else "internal"


class _Closing(NamedTuple):
    """Why the next answer is the last: no tools, and the turn ends with `cause`."""

    cause: str
    why: str


class _Run:
    """The state of one turn. Used by its task alone."""

    def __init__(self, turn: Turn, ports: Ports) -> None:
        self.turn = turn
        self.ports = ports
        self.specs = tuple(tool.spec for tool in turn.tools)
        self.gauge = Gauge()
        self.repeats = Repeats(2 if turn.model.small else turn.limits.repeat_max)
        self.usage = Usage()
        self.context_tokens = 0
        self.step = 0
        self.denied = 0
        self.filling = turn.filling
        self.text = ""
        self.may_summarize = not turn.model.small  # there it would take longer than the turn
        self.answer: Answer | None = None
        """The answer being streamed: `StepStarted` is out, `AssistantDone` not yet."""
        self.batch: CallBatch | None = None
        """The calls of the last answer."""
        self.ended: TurnEnd | None = None
        """Set in the instant in which the last answer is stored."""

    def end(self, state: EndState, cause: str, error: TenureError | None = None) -> TurnEnd:
        """The turn's end as things stand."""
        denied = self.denied + (self.batch.denied if self.batch else 0)
        return TurnEnd(
            state, cause, self.text, self.usage, self.context_tokens, self.step, denied, error,
            self.filling,
        )  # fmt: skip

    async def steps(self) -> TurnEnd:
        """Step after step, until one ends the turn."""
        closing: _Closing | None = None
        while True:
            await self._take_steered()
            await self._take_notes()
            await self._ask(closing)
            if self.batch is None:
                ended, self.ended = self.ended, None
                assert ended is not None
                if await self._take_steered():  # said while the last answer was written
                    continue
                return ended
            await self.batch.run()
            self.usage += self.batch.usage
            if self.batch.refusal is not None:
                return self.end("refused", "denied")
            closing = self._closing(self.batch)

    def _closing(self, batch: CallBatch) -> _Closing | None:
        """Whether the next answer is the last one."""
        if self.repeats.note(batch.signatures()):
            return _Closing("repeat", "the same call gave the same result again")
        if self.step >= self.turn.limits.steps_max:
            return _Closing("steps", f"the limit of {self.step} steps is reached")
        return None

    async def _take_steered(self) -> bool:
        storing = self.ports.steered()
        if storing is None:
            return False
        await self._write(storing)
        return True

    async def _take_notes(self) -> None:
        storing = self.ports.noted()
        if storing is not None:
            await self._write(storing)

    # --- one answer -----------------------------------------------------------------------------

    async def _ask(self, closing: _Closing | None) -> None:
        """Get and store one answer; then either `batch` has its calls, or `ended` is set."""
        request = await self._request(closing)
        self.denied, self.batch = self.end("completed", "").denied, None
        self.step += 1
        answer = self.answer = Answer(self.step)
        self.ports.journal.transient(StepStarted(self.step))
        finished = await read_answer(self.turn.model, request, answer, self.ports.journal)
        self.usage += finished.usage
        self.context_tokens = finished.usage.input + finished.usage.output
        self.gauge.learn(self._estimate(request), finished.usage)
        calls = () if closing else tidy(answer.calls, self.step)
        if not calls and not answer.text.strip():
            self._mend_silence(answer, finished, closing)
        await self._write(self._store_answer(answer, finished, calls, closing))

    def _mend_silence(self, answer: Answer, finished: Finished, closing: _Closing | None) -> None:
        """Nobody may be left without an answer, unless the model simply had nothing to add."""
        if closing:
            answer.say(f"Stopped: {closing.why}.", self.ports.journal)
        elif finished.reason == "length":
            raise ModelGarbage(f"{self.turn.model.ref} used up its length before the first word.")
        elif finished.reason != "content_filter" and self.step == 1:
            raise ModelGarbage(f"{self.turn.model.ref} answered nothing; ask again or differently.")

    async def _store_answer(
        self,
        answer: Answer,
        finished: Finished,
        calls: tuple[PendingCall, ...],
        closing: _Closing | None,
    ) -> None:
        """Store the answer and, in the same instant, know what comes next."""
        wanted = tuple(pending.call for pending in calls)
        await self._store_text(answer, "complete", finished.usage, wanted)
        if calls:
            self.batch = CallBatch(self.turn, self.ports, calls)
        elif finished.reason == "content_filter":
            self.ended = self.end("refused", "content_filter")
        else:
            cause = closing.cause if closing else finished.reason
            self.ended = self.end("completed", "stop" if cause == "tool_calls" else cause)

    async def _store_text(
        self,
        answer: Answer,
        status: AnswerStatus,
        usage: Usage,
        calls: tuple[ToolCall, ...] = (),
    ) -> None:
        text, reasoning = answer.text, answer.reasoning
        done = AssistantDone(answer.step, text, reasoning, usage, status, final=not calls)
        self.text = text or self.text
        if text or calls:
            message = Message("assistant", text, tool_calls=calls, reasoning=reasoning)
            await self.ports.journal.item(message, events=(done,))
        else:
            await self.ports.journal.event(done)
        self.answer = None

    # --- the request ----------------------------------------------------------------------------

    def _take_tools(self) -> None:
        """Offer from now on what has come since; what was offered stays, and stays first."""
        known = {tool.name for tool in self.turn.tools}
        more = tuple(tool for tool in self.ports.more_tools() if tool.name not in known)
        if more:
            self.turn = replace(self.turn, tools=(*self.turn.tools, *more))
            self.specs = (*self.specs, *(tool.spec for tool in more))

    async def _request(self, closing: _Closing | None) -> ModelRequest:
        self._take_tools()
        model = self.turn.model
        prefix = self.gauge.prefix(self.turn.system, self.specs)
        tokens_max = context.room(model.context_tokens, prefix)
        messages = context.repair(self.ports.journal.history())
        self._warn(messages, tokens_max)
        if self.gauge.messages(messages) > tokens_max:
            messages = await self._make_room(messages, tokens_max)
            self.filling = context.is_filling(self.gauge.messages(messages), tokens_max)
        shown = await self._show(messages, tokens_max)
        messages = shown.messages
        if closing:
            messages += (Message("user", CLOSING_NOTE.format(why=closing.why)),)
        return ModelRequest(
            system=self.turn.system,
            messages=messages,
            tools=self.specs,
            text_only=closing is not None,
            session_id=self.turn.session_id,
            media=shown.media,
        )

    async def _show(self, messages: tuple[Message, ...], tokens_max: int) -> Shown:
        """Files as this model takes them; what it cannot see of an earlier prompt is said once."""
        model = self.turn.model
        check_sight(messages, model.sight, model.ref)
        text_max = int(tokens_max * self.gauge.chars_per_token / 2)
        shown = await show(messages, model.sight, self.ports.uploads, text_max)
        if shown.unseen and self.step == 0:
            names = ", ".join(shown.unseen[:5])
            text = f"{model.ref} cannot see images, so it is not shown {names}."
            self.ports.journal.transient(StatusNote(text))
        return shown

    def _warn(self, messages: tuple[Message, ...], tokens_max: int) -> None:
        """Tell once that a summary is near; again only after there was room in between."""
        tokens = self.gauge.messages(messages)
        before, self.filling = self.filling, context.is_filling(tokens, tokens_max)
        if self.filling and not before:
            self.ports.journal.transient(ContextFilling(tokens, tokens_max))

    async def _make_room(
        self, messages: tuple[Message, ...], tokens_max: int
    ) -> tuple[Message, ...]:
        """Summarize older history; where that does not help, leave out its oldest parts."""
        ports = self.ports
        if self.may_summarize:
            done = await compact(
                self.turn.model, ports.journal, ports.clock, tokens_max=tokens_max, gauge=self.gauge
            )
            self.usage += done.usage
            self.may_summarize = done.how == "summary"  # else not again in this turn
            messages = context.repair(ports.journal.history())
        if self.gauge.messages(messages) > tokens_max:
            ports.journal.transient(StatusNote("Leaving out older output to fit the window."))
        return context.trim(messages, tokens_max, self.gauge)

    def _estimate(self, request: ModelRequest) -> int:
        prefix = self.gauge.prefix(request.system, request.tools)
        return prefix + self.gauge.messages(request.messages)

    # --- writing --------------------------------------------------------------------------------

    async def _write(self, step: Coroutine[Any, Any, None]) -> None:
        await write_whole(self.ports.clock, step)

    async def finish(self, status: AnswerStatus, who: str) -> None:
        """After a cut: keep what was said, end what runs, leave history valid. Never raises.

        What a failing store makes impossible here, `context.repair` mends when history is read.
        """
        try:
            await uninterrupted(self.ports.clock, FINISH_S, self._finish(status, who))
        except asyncio.CancelledError:
            log.debug("Turn %s was cancelled again while it ended", self.turn.id)
        except Exception:  # the turn has its end already; this must not replace it
            log.exception("The end of turn %s could not be written", self.turn.id)

    async def _finish(self, status: AnswerStatus, who: str) -> None:
        if self.answer is not None:
            await self._store_text(self.answer, status, Usage())
        if self.batch is not None:
            await self.batch.close(who)
