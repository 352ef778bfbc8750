"""A model that answers from a script: for tests and demos, without any network.

The format of a script stands in `tenure.models.script`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec

from tenure.clock import Clock
from tenure.conversation import ToolCall, Usage
from tenure.errors import ModelError
from tenure.models import failures
from tenure.models.base import (
    Finished,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    Progress,
    ReasoningDelta,
    Sight,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
)
from tenure.models.script import Action, CallAction, ErrorAction, Script
from tenure.paths import named

_KIND_STATUS = {"unauthorized": 401, "overloaded": 503}


class ScriptedModel:
    """A `Model` that plays a `Script`."""

    __slots__ = ("_clock", "_script", "ref")

    def __init__(self, ref: str, script: Script, clock: Clock) -> None:
        self.ref = ref
        self._script = script
        self._clock = clock

    @property
    def context_tokens(self) -> int:
        """As the script says."""
        return self._script.context_tokens

    @property
    def small(self) -> bool:
        """As the script says."""
        return self._script.small

    @property
    def sight(self) -> Sight:
        """As the script says."""
        return self._script.sight

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Play the next step."""
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        self._script.open_streams += 1
        try:
            async with aclosing(self._play(request)) as events:
                yield events
        finally:
            self._script.open_streams -= 1

    async def _play(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        player = _Player(self._script, self._clock, self.ref)
        for action in self._script.take(request):
            async with aclosing(player.perform(action)) as events:
                async for event in events:
                    yield event
        yield player.finished(request)


class _Player:
    """One step while it is being played."""

    def __init__(self, script: Script, clock: Clock, ref: str) -> None:
        self._script = script
        self._clock = clock
        self._ref = ref
        self._pace_s = 0.0
        self._calls = 0
        self._words = 0
        self._usage: Usage | None = None
        self._reason: Literal["stop", "tool_calls", "length", "content_filter"] | None = None

    async def perform(self, action: Action) -> AsyncGenerator[ModelEvent, None]:
        """The events of one action."""
        if action.delay_s:
            await self._clock.sleep(action.delay_s)
        if action.gate:
            await self._script.wait_gate(action.gate, self._clock)
        if action.pace_s is not None:
            self._pace_s = action.pace_s
        if action.progress:
            yield Progress(action.progress)
        if action.reasoning:
            yield ReasoningDelta(action.reasoning)
        for piece in action.deltas or _words(action.text):
            if self._pace_s:
                await self._clock.sleep(self._pace_s)
            self._words += 1
            yield TextDelta(piece)
        if action.call is not None:
            index = self._calls
            self._calls += 1
            yield ToolCallStarted(index, action.call.name)
            yield ToolCallReady(self._call(action.call, index))
        if action.error is not None:
            raise _failure(action.error, self._ref)
        self._usage = action.usage or self._usage
        self._reason = action.finish or self._reason

    def finished(self, request: ModelRequest) -> Finished:
        """The last event, with usage counted in words where the script does not say."""
        asked = len(request.system.split()) + sum(len(m.text.split()) for m in request.messages)
        usage = self._usage or Usage(input=asked, output=self._words)
        return Finished(self._reason or ("tool_calls" if self._calls else "stop"), usage)

    def _call(self, call: CallAction, index: int) -> ToolCall:
        written = call.arguments
        text = written if isinstance(written, str) else msgspec.json.encode(written).decode()
        asked = self._script.asked
        return ToolCall(call.id or f"call_{asked}_{index}", call.name, text)


class ScriptedProvider:
    """The provider ``scripted``. In a file's name the model is the path.

    Args:
        clock: for delays and paces.
        script: the one script of every model (tests); None reads the file a model is named after.
        read: how a file is read, once for each name.
    """

    def __init__(
        self,
        clock: Clock,
        script: Script | None = None,
        read: Callable[[Path], Script] = Script.load,
    ) -> None:
        self._clock = clock
        self._script = script
        self._read = read
        self._files: dict[str, Script] = {}

    @property
    def name(self) -> str:
        """``scripted``."""
        return "scripted"

    def model(self, name: str) -> ScriptedModel:
        """The model that plays the file `name`.

        Raises:
            ConfigError: the file is missing or of the wrong form.
        """
        script = self._script
        if script is None:
            script = self._files.get(name) or self._read(named(name))
            self._files[name] = script
        return ScriptedModel(f"scripted:{name}", script, self._clock)

    async def list_models(self) -> list[ModelInfo]:
        """The scripts that were opened."""
        return [ModelInfo(name, s.context_tokens) for name, s in self._files.items()]

    async def aclose(self) -> None:
        """Nothing is held."""


def _failure(error: ErrorAction, ref: str) -> ModelError:
    origin = failures.Origin("scripted")
    status = error.status or _KIND_STATUS.get(error.kind, 0)
    if status:
        return failures.from_status(
            origin, status, error.message, retry_after_s=error.retry_after_s, model=ref
        )
    if error.kind == "garbage":
        return failures.garbage(origin, error.message or "the script says so")
    return ModelError(error.message or "The script fails here.", provider="scripted")


def _words(text: str) -> list[str]:
    """`text` in words, each with the blanks that follow it; joined they give `text` again."""
    pieces: list[str] = []
    start = 0
    for at in range(1, len(text)):
        if not text[at].isspace() and text[at - 1].isspace():
            pieces.append(text[start:at])
            start = at
    return [*pieces, text[start:]] if text else []
