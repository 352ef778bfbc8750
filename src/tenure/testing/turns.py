"""Turns to run in a test: a model that plays lists of events, and ports full of fakes."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from tenure.agent.ports import (
    Asker,
    AssistantDone,
    CompactionDone,
    CompactionStarted,
    Ports,
    StepStarted,
    ToolFinished,
    ToolStarted,
    Turn,
    TurnEvent,
    TurnJournal,
)
from tenure.clock import Clock
from tenure.config import LimitsConfig
from tenure.conversation import Message, ToolCall, Usage
from tenure.lifecycle.scope import Scope
from tenure.models.base import (
    Finished,
    Model,
    ModelEvent,
    ModelRequest,
    Sight,
    TextDelta,
    ToolCallReady,
)
from tenure.testing.journal import MemoryAsker
from tenure.tools.base import Tool, ToolContext

T = TypeVar("T")
Play = Sequence[ModelEvent | BaseException | Callable[[], object]]
"""Events to yield; an exception is raised; a callable is called, and awaited if that is needed."""


def says(text: str, **usage: int) -> list[ModelEvent]:
    """An answer of a few deltas."""
    words = [TextDelta(word) for word in text.split(" ")]
    return [*words, Finished("stop", Usage(**usage) if usage else Usage(10, 5))]


def calls(*wanted: tuple[str, str], text: str = "") -> list[ModelEvent]:
    """An answer that calls tools: pairs of name and arguments."""
    ready = [
        ToolCallReady(ToolCall(f"c{index}", name, arguments))
        for index, (name, arguments) in enumerate(wanted)
    ]
    return [*([TextDelta(text)] if text else []), *ready, Finished("tool_calls", Usage(10, 5))]


class PlayedModel:
    """A `Model` that plays one list of events per call, and remembers the requests."""

    def __init__(
        self,
        *plays: Play,
        ref: str = "played:one",
        context_tokens: int = 100_000,
        small: bool = False,
    ) -> None:
        self.plays = list(plays)
        self.ref = ref
        self.context_tokens = context_tokens
        self.sight = Sight(images=True)
        self.small = small
        self.requests: list[ModelRequest] = []
        self.open_streams = 0

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Play the next list; when none is left, say "done"."""
        self.requests.append(request)
        return self._stream(self.plays.pop(0) if self.plays else says("done"))

    @asynccontextmanager
    async def _stream(self, play: Play) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        self.open_streams += 1
        try:
            await asyncio.sleep(0)
            async with aclosing(_events(play)) as events:
                yield events
        finally:
            self.open_streams -= 1


async def _events(play: Play) -> AsyncGenerator[ModelEvent, None]:
    for event in play:
        await asyncio.sleep(0)
        if isinstance(event, BaseException):
            raise event
        if callable(event):
            waiting = event()
            if asyncio.iscoroutine(waiting):
                await waiting
        else:
            yield event


def turn_of(
    model: Model, tools: Iterable[Tool] = (), *, limits: LimitsConfig | None = None, cwd: str = "/w"
) -> Turn:
    """A turn's facts."""
    return Turn(
        id="t1", session_id="s1", model=model, tools=tuple(tools), system="Be brief.",
        limits=limits or LimitsConfig(), cwd=cwd,
    )  # fmt: skip


async def _store(journal: TurnJournal, messages: tuple[Message, ...]) -> None:
    for message in messages:
        await journal.item(message)


def ports_of(
    scope: Scope,
    clock: Clock,
    journal: TurnJournal,
    asker: Asker | None = None,
    steered: Callable[[], tuple[Message, ...]] = tuple,
) -> Ports:
    """A turn's ports, without children and files.

    `steered` gives what a person has said meanwhile.
    """

    def storing() -> Coroutine[Any, Any, None] | None:
        messages = steered()
        return _store(journal, messages) if messages else None

    def context(call: ToolCall, output: Callable[[str], None]) -> ToolContext:
        return ToolContext(
            session_id="s1", turn_id="t1", call_id=call.id, cwd=Path("/w"), scope=scope,
            session=scope, spawner=cast("Any", None), clock=clock, spill_dir=Path("/w"),
            output=output, state={},
        )  # fmt: skip

    return Ports(
        journal=journal, asker=asker or MemoryAsker(), scope=scope, clock=clock,
        tool_context=context, steered=storing,
    )  # fmt: skip


class CancelAt(Generic[T]):
    """Awaits something and cancels its task at chosen awaits, counted from 1.

    Attributes:
        awaits: how many there were.
    """

    def __init__(self, awaitable: Any, *numbers: int) -> None:
        self._awaitable = awaitable
        self._numbers = numbers
        self.awaits = 0

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._awaitable.__await__()
        sent: Any = None
        raised: BaseException | None = None
        while True:
            try:
                waited = steps.send(sent) if raised is None else steps.throw(raised)
            except StopIteration as stop:
                return cast("T", stop.value)
            self.awaits += 1
            if self.awaits in self._numbers:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                sent, raised = (yield waited), None
            except BaseException as exc:  # noqa: BLE001 - passed on to what is awaited
                sent, raised = None, exc


def unpaired(events: Iterable[TurnEvent]) -> list[TurnEvent]:
    """Starts without an end and ends without a start."""
    open_: dict[object, TurnEvent] = {}
    wrong: list[TurnEvent] = []
    for event in events:
        key, starts = _pair_of(event)
        if key is None:
            continue
        if starts == (key in open_):
            wrong.append(event)
        elif starts:
            open_[key] = event
        else:
            del open_[key]
    return [*wrong, *open_.values()]


def _pair_of(event: TurnEvent) -> tuple[object, bool]:
    if isinstance(event, StepStarted | AssistantDone):
        return ("step", event.step), isinstance(event, StepStarted)
    if isinstance(event, ToolStarted | ToolFinished):
        return ("call", event.call_id), isinstance(event, ToolStarted)
    if isinstance(event, CompactionStarted | CompactionDone):
        return "compaction", isinstance(event, CompactionStarted)
    return None, False
