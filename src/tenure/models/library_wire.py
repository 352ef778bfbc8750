"""Our conversation in the model library's words, and its stream in ours.

Importing this module imports pydantic-ai's messages (about a second), so only `providers` does, off
the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from pydantic_ai import messages as lib
from pydantic_ai.models import KnownModelName, ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from tenure.conversation import Message, ToolCall, ToolSpec, Usage
from tenure.models.base import (
    Finished,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
)

FinishReason = Literal["stop", "tool_calls", "length", "content_filter"]

_REASONS: dict[str | None, FinishReason] = {
    "length": "length",
    "content_filter": "content_filter",
    "tool_call": "tool_calls",
}


def history(request: ModelRequest) -> list[lib.ModelMessage]:
    """The request's system text and messages."""
    told: list[Any] = []
    parts: list[Any] = [lib.SystemPromptPart(request.system)] if request.system else []
    names: dict[str, str] = {}
    for message in request.messages:
        if message.role == "assistant":
            if parts:
                told.append(lib.ModelRequest(parts))
                parts = []
            names |= {call.id: call.name for call in message.tool_calls}
            told.append(lib.ModelResponse(_answer_parts(message)))
        elif message.role == "tool":
            name = names.get(message.tool_call_id, "tool")
            parts.append(
                lib.ToolReturnPart(
                    name,
                    message.text,
                    message.tool_call_id,
                    outcome="failed" if message.is_error else "success",
                )
            )
        else:
            parts.append(lib.UserPromptPart(_prompt(message, request.media)))
    if parts:
        told.append(lib.ModelRequest(parts))
    return told


def _prompt(message: Message, media: Mapping[str, bytes]) -> Any:
    """A prompt: its text, or that and its files."""
    files: list[Any] = [
        lib.BinaryContent(media[upload.digest], media_type=upload.type, identifier=upload.name)
        for upload in message.files
        if upload.digest in media
    ]
    return [*files, message.text] if files else message.text


def parameters(tools: Sequence[ToolSpec]) -> ModelRequestParameters:
    """The offered tools."""
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=t.name,
                description=t.description,
                parameters_json_schema=t.parameters,
                strict=False,
            )
            for t in tools
        ]
    )


def settings(request: ModelRequest, provider: str) -> dict[str, Any]:
    """Limits, and what each provider needs for its prompt cache."""
    chosen: dict[str, Any] = {}
    if request.max_tokens is not None:
        chosen["max_tokens"] = request.max_tokens
    if request.temperature is not None:
        chosen["temperature"] = request.temperature
    if request.text_only and request.tools:
        chosen["tool_choice"] = "none"
    if provider == "anthropic":
        chosen.setdefault("max_tokens", 8_192)  # this API has no default of its own
        chosen |= {"anthropic_cache_instructions": True, "anthropic_cache_tool_definitions": True}
    return chosen


def event(told: Any) -> ModelEvent | None:
    """The event that a library event means, or None."""
    if isinstance(told, lib.PartStartEvent):
        part = told.part
        if isinstance(part, lib.TextPart) and part.content:
            return TextDelta(part.content)
        if isinstance(part, lib.ThinkingPart) and part.content:
            return ReasoningDelta(part.content)
        if isinstance(part, lib.ToolCallPart):
            return ToolCallStarted(told.index, part.tool_name)
    elif isinstance(told, lib.PartDeltaEvent):
        delta = told.delta
        if isinstance(delta, lib.TextPartDelta) and delta.content_delta:
            return TextDelta(delta.content_delta)
        if isinstance(delta, lib.ThinkingPartDelta) and delta.content_delta:
            return ReasoningDelta(delta.content_delta)
    return None


def ending(response: Any) -> list[ModelEvent]:
    """The whole calls, in source order, and `Finished`; nothing for an empty response."""
    calls = [part for part in response.parts if isinstance(part, lib.ToolCallPart)]
    if not response.parts:
        return []
    events: list[ModelEvent] = [
        ToolCallReady(ToolCall(part.tool_call_id, part.tool_name, part.args_as_json_str()))
        for part in calls
    ]
    reason = _REASONS.get(response.finish_reason, "tool_calls" if calls else "stop")
    used = response.usage
    usage = Usage(
        input=used.input_tokens,
        output=used.output_tokens,
        cached=used.cache_read_tokens,
        reasoning=getattr(used, "output_reasoning_tokens", 0),
    )
    events.append(Finished(reason, usage))
    return events


def known_models(provider: str) -> list[str]:
    """The models of `provider` that this release of the library knows."""
    names = get_args(getattr(KnownModelName, "__value__", KnownModelName))
    return [n.partition(":")[2] for n in names if n.startswith(f"{provider}:")]


def _answer_parts(message: Message) -> list[Any]:
    parts: list[Any] = [lib.TextPart(message.text)] if message.text else []
    parts += [lib.ToolCallPart(c.name, c.arguments or "{}", c.id) for c in message.tool_calls]
    return parts
