"""What a model is to the rest of Tenure: one streaming call.

A `Model` is cheap and owns nothing. A `ModelProvider` owns what its models share (an HTTP client,
a runtime child); sessions reach it through a counted borrow and cannot close it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Literal, NamedTuple, Protocol

import msgspec

from tenure.conversation import Message, ToolCall, ToolSpec, Usage


class ModelRequest(msgspec.Struct, frozen=True):
    """One model call. `system` and `tools` form the stable prefix that caches key on."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    text_only: bool = False
    """Forbid tool calls in this step (the loop asks for a closing sentence)."""
    session_id: str = ""
    """For prompt-cache affinity only."""
    media: Mapping[str, bytes] = {}
    """Contents of the files that stand in `messages`, by digest."""


class TextDelta(msgspec.Struct, frozen=True):
    """More answer text."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True):
    """More of the model's thinking."""

    text: str


class ToolCallStarted(msgspec.Struct, frozen=True):
    """The model began to write a call; arguments are still coming."""

    index: int
    name: str


class ToolCallReady(msgspec.Struct, frozen=True):
    """A whole call. Emitted in source order, before `Finished`."""

    call: ToolCall


class Progress(msgspec.Struct, frozen=True):
    """What a slow start is doing ("loading the model", "reading the prompt 40 %"); transient."""

    text: str


class Finished(msgspec.Struct, frozen=True):
    """The last event of every successful stream."""

    reason: Literal["stop", "tool_calls", "length", "content_filter"]
    usage: Usage


ModelEvent = TextDelta | ReasoningDelta | ToolCallStarted | ToolCallReady | Progress | Finished


class Sight(NamedTuple):
    """What a model takes as it is, besides text."""

    images: bool | None = None
    """None: nobody knows, so it is tried."""
    pdfs: bool = False


BLIND = Sight(images=False)


class ModelInfo(msgspec.Struct, frozen=True):
    """A model that a provider offers."""

    name: str
    """The provider's own name for it, without the provider prefix."""
    context_tokens: int = 0
    """0 where unknown."""
    display: str = ""


class Model(Protocol):
    """A model behind a provider. Owns nothing."""

    @property
    def ref(self) -> str:
        """``provider:name``."""

    @property
    def context_tokens(self) -> int:
        """Context window in tokens (a safe default where unknown)."""

    @property
    def small(self) -> bool:
        """Whether prompts must be kept tiny (the starter model): short system text, few tools."""

    @property
    def sight(self) -> Sight:
        """What it takes besides text."""

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Open one streamed call.

        The stream ends with `Finished`; anything else is an error. Leaving the context closes the
        stream at the server too, whatever the reason; cancelling the reader is safe at any point.

        Raises:
            ModelError: from entering or iterating, already in one clear sentence.
        """


class ModelProvider(Protocol):
    """What models of one provider share. Ends with `aclose`, called by its owner only."""

    @property
    def name(self) -> str:
        """The part before the colon of a model reference."""

    def model(self, name: str) -> Model:
        """The model of that name; no I/O, nothing to close.

        Raises:
            BadValue: the name cannot be one of this provider's.
        """

    async def list_models(self) -> list[ModelInfo]:
        """Ask what there is. Raises ModelError."""

    async def aclose(self) -> None:
        """Free everything. Idempotent."""


class Picked(msgspec.Struct, frozen=True):
    """A model with the sentence that says why this one."""

    model: Model
    reason: str
