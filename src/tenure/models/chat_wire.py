"""The OpenAI chat-completions wire, sans I/O: requests out, typed chunks in, model events up.

The hot path is `ChunkReader.feed`: one msgspec decode per event and no allocation that the caller
does not get. Unknown fields are ignored, since every server adds its own.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from tenure.conversation import Message, ToolCall, ToolSpec, Upload, Usage
from tenure.errors import ModelError
from tenure.models import failures
from tenure.models.base import (
    Finished,
    ModelEvent,
    ModelRequest,
    Progress,
    ReasoningDelta,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
)
from tenure.models.sse import EventTooLargeError, SseReader

CALLS_MAX = 128
"""Tool calls in one answer."""
ARGUMENTS_CHARS_MAX = 4 * 1024 * 1024
"""Characters of one call's arguments."""

PROGRESS_TOKENS = 64
"""Shorter prompts are read without a word about it."""

FinishReason = Literal["stop", "tool_calls", "length", "content_filter"]

_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None
    """Ollama's older servers send an object."""


class _CallDelta(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    tool_calls: list[_CallDelta] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    message: _Delta | None = None
    """Instead of `delta` where the server did not stream."""
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _OutputDetails | None = None


class Timings(msgspec.Struct, frozen=True):
    """llama.cpp's own account of a call, in tokens and milliseconds."""

    cache_n: int = 0
    prompt_n: int = 0
    prompt_ms: float = 0.0
    predicted_n: int = 0
    predicted_ms: float = 0.0


class PromptProgress(msgspec.Struct, frozen=True):
    """llama.cpp's account of a prompt that it is reading (``return_progress``)."""

    total: int = 0
    cache: int = 0
    processed: int = 0
    time_ms: float = 0.0


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    timings: Timings | None = None
    prompt_progress: PromptProgress | None = None


class _Building(msgspec.Struct):
    """A call whose arguments are still coming."""

    id: str
    name: str
    parts: list[str]
    chars: int = 0


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class ChunkReader:
    """Folds the chunks of one answer into model events.

    Attributes:
        origin: who answers, for messages.
        empty: nothing has come yet.
        timings: the server's own, once it told them (llama.cpp).
        prompt: how far the server has read the prompt (llama.cpp).

    A tool call that a model prints as text (a fenced JSON block, ``<tool_call>``) stays text:
    such a block may just as well be an example that the person asked for, and acting on it would
    be a guess. The loop shows it; the person sees what the model meant.
    """

    __slots__ = (
        "_calls", "_done", "_failure", "_reason", "_sse", "_started", "_usage",
        "empty", "origin", "prompt", "timings",
    )  # fmt: skip

    def __init__(self, origin: failures.Origin) -> None:
        self.origin = origin
        self._sse = SseReader()
        self._calls: dict[int, _Building] = {}
        self._started: set[int] = set()
        self._reason: FinishReason | None = None
        self._usage = Usage()
        self._done = False
        self._failure: ModelError | None = None
        self.empty = True
        self.timings: Timings | None = None
        self.prompt: PromptProgress | None = None

    @property
    def done(self) -> bool:
        """Whether the stream said that it is over."""
        return self._done

    def feed(self, piece: bytes) -> list[ModelEvent]:
        """The model events that a piece of the stream completes.

        Raises:
            ModelError: the provider reports a failure inside the stream.
            ModelGarbage: an event is not a chunk, or is too large.
        """
        try:
            arrived = self._sse.feed(piece)
        except EventTooLargeError as exc:
            raise failures.garbage(self.origin, str(exc)) from None
        events: list[ModelEvent] = []
        try:
            for name, data in arrived:
                self.fold(name, data, events)
        except ModelError as exc:
            if not events:
                raise
            self._failure = exc  # what came before it in this piece is told first
            self._done = True
        return events

    def finish(self) -> list[ModelEvent]:
        """The last events, once the stream has ended.

        Raises:
            ModelError: as `feed`.
            ModelGarbage: nothing came, or the stream broke off.
        """
        if self._failure is not None:
            raise self._failure
        events: list[ModelEvent] = []
        for name, data in () if self._done else self._sse.close():
            self.fold(name, data, events)
        if self.empty:
            raise failures.garbage(self.origin, "it is empty")
        if self._reason is None and not self._done:
            raise failures.garbage(self.origin, "it broke off before its end")
        self._end(events)
        return events

    def fold(self, name: bytes, data: bytes, events: list[ModelEvent]) -> None:
        """Append the model events of one server-sent event (or of a whole JSON answer)."""
        if data == b"[DONE]":
            self._done = True
            return
        try:
            chunk = _decode_chunk(data)
        except msgspec.MsgspecError as exc:
            shown = failures.cleaned(data[:80].decode("utf-8", "replace"), self.origin.secrets)
            raise failures.garbage(self.origin, f"{exc}, in “{shown}”".rstrip(".")) from None
        if chunk.error is not None:
            raise failures.in_stream(self.origin, chunk.error)
        if name == b"error":
            raise failures.in_stream(self.origin, msgspec.json.decode(data))
        self.empty = False
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage)
        if chunk.timings is not None:
            self.timings = chunk.timings
        if chunk.prompt_progress is not None:
            self._read(chunk.prompt_progress, events)
        if chunk.choices:
            self._choice(chunk.choices[0], events)

    def _read(self, progress: PromptProgress, events: list[ModelEvent]) -> None:
        self.prompt = progress
        todo = progress.total - progress.cache
        if todo > PROGRESS_TOKENS:
            share = 100 * (progress.processed - progress.cache) // todo
            events.append(Progress(f"reading the prompt {share} %"))

    def _end(self, events: list[ModelEvent]) -> None:
        """Append the finished calls and `Finished`."""
        for index in sorted(self._calls):
            building = self._calls[index]
            if not building.name:
                raise failures.garbage(self.origin, "a tool call has no name")
            call = ToolCall(
                building.id or f"call_{index}", building.name, "".join(building.parts) or "{}"
            )
            events.append(ToolCallReady(call))
        reason: FinishReason = self._reason or "stop"
        if self._calls and reason == "stop":
            reason = "tool_calls"  # several servers say "stop" after calls
        events.append(Finished(reason, self._usage))

    def _choice(self, choice: _Choice, events: list[ModelEvent]) -> None:
        delta = choice.delta or choice.message
        if delta is not None:
            thought = delta.reasoning_content or delta.reasoning
            if thought:
                events.append(ReasoningDelta(thought))
            text = delta.content or delta.refusal
            if text:
                events.append(TextDelta(text))
            if delta.tool_calls:
                self._fold(delta.tool_calls, events)
        if choice.finish_reason:
            self._reason = _REASONS.get(choice.finish_reason, "stop")

    def _fold(self, deltas: list[_CallDelta], events: list[ModelEvent]) -> None:
        for delta in deltas:
            index = self._index(delta)
            building = self._calls.setdefault(index, _Building("", "", []))
            if len(self._calls) > CALLS_MAX:
                raise failures.garbage(self.origin, f"it has over {CALLS_MAX} tool calls")
            function = delta.function or _Function()
            building.id = building.id or delta.id or ""
            building.name = building.name or function.name or ""
            part = function.arguments
            if part:
                text = part if isinstance(part, str) else msgspec.json.encode(part).decode()
                building.parts.append(text)
                building.chars += len(text)
            if building.chars > ARGUMENTS_CHARS_MAX:
                raise failures.garbage(self.origin, "the arguments of a call are too long")
            if building.name and index not in self._started:
                self._started.add(index)
                events.append(ToolCallStarted(index, building.name))

    def _index(self, delta: _CallDelta) -> int:
        """Where a call belongs. Some servers send no index: a new id begins a new call."""
        if delta.index is not None:
            return delta.index
        for index, building in self._calls.items():
            if delta.id and building.id == delta.id:
                return index
        return len(self._calls) if delta.id or not self._calls else len(self._calls) - 1


def whole_answer(body: bytes, origin: failures.Origin) -> list[ModelEvent]:
    """The events of an answer that came as one JSON document although a stream was asked for.

    Raises:
        ModelError: it is an error document.
        ModelGarbage: it is no answer.
    """
    reader = ChunkReader(origin)
    events: list[ModelEvent] = []
    reader.fold(b"", body, events)
    return [*events, *reader.finish()]


def request_body(
    model: str, request: ModelRequest, *, completion_tokens: bool = False, cache_key: bool = False
) -> bytes:
    """The JSON body of one call.

    Args:
        model: the provider's own name.
        request: what to ask.
        completion_tokens: OpenAI itself wants ``max_completion_tokens``; the others know only
            ``max_tokens``.
        cache_key: send the session as ``prompt_cache_key`` (OpenAI's cache affinity).
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "system", "content": request.system}] if request.system else [],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    body["messages"] += [_message(m, request.media) for m in request.messages]
    if request.tools:
        body["tools"] = [_tool(t) for t in request.tools]
        if request.text_only:  # the tools stay, so that the cached prefix stays
            body["tool_choice"] = "none"
    if request.max_tokens is not None:
        key = "max_completion_tokens" if completion_tokens else "max_tokens"
        body[key] = request.max_tokens
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if cache_key and request.session_id:
        body["prompt_cache_key"] = request.session_id
    return msgspec.json.encode(body)


def _message(message: Message, media: Mapping[str, bytes]) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
    if not message.tool_calls:
        parts = [_part(upload, media[upload.digest]) for upload in message.files
                 if upload.digest in media]  # fmt: skip
        content = [*parts, {"type": "text", "text": message.text}] if parts else message.text
        return {"role": message.role, "content": content}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": message.text or None, "tool_calls": calls}


def _part(upload: Upload, content: bytes) -> dict[str, Any]:
    """A file as it is. Base64 needs no escaping, so the encoder takes it over without a look."""
    packed = base64.b64encode(content)
    url = msgspec.Raw(b'"data:%b;base64,%b"' % (upload.type.encode(), packed))
    if upload.kind == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": upload.name, "file_data": url}}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }


def _usage(usage: _Usage) -> Usage:
    prompt, output = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        input=usage.prompt_tokens or 0,
        output=usage.completion_tokens or 0,
        cached=(prompt.cached_tokens or 0) if prompt else 0,
        reasoning=(output.reasoning_tokens or 0) if output else 0,
    )
