"""What happens in a turn, as the events that clients know. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.agent import ports as p
from tenure.conversation import Usage
from tenure.store.base import ItemRow

Wire = tuple[str, dict[str, Any]]


def project(event: p.TurnEvent) -> Wire | None:  # noqa: C901, PLR0911, PLR0912 - one line an event
    """Type and payload of an event, or None for what clients have no use for."""
    match event:
        case p.TextDelta():
            return "message.delta", {"text": event.text}
        case p.ReasoningDelta():
            return "reasoning.delta", {"text": event.text}
        case p.ToolGenerating():
            return "tool.generating", {"name": event.name}
        case p.ToolOutput():
            return "tool.progress", {"tool_id": event.call_id, "text": event.text}
        case p.StatusNote():
            return "status.update", {"kind": "status", "text": event.text}
        case p.ToolStarted():
            return "tool.start", _started(event)
        case p.ToolFinished():
            return "tool.complete", _finished(event)
        case p.AssistantDone():
            if event.final or not event.text:
                return None
            return "message.interim", {"text": event.text, "already_streamed": True}
        case p.ContextFilling():
            return "notification.show", _filling(event)
        case p.CompactionStarted():
            return "status.update", {"kind": "compacting", "text": "summarizing older messages"}
        case p.CompactionDone():
            text = f"history: about {event.before} tokens before, {event.after} after"
            return "status.update", {"kind": "compacted", "text": text}
        case _:
            return None


def _filling(event: p.ContextFilling) -> dict[str, Any]:
    share = round(100 * event.tokens / event.tokens_max)
    text = (
        f"The conversation fills {share} % of its room; soon its older part is summarized "
        "(/context shows what fills it)."
    )
    return {"text": text, "level": "warn", "kind": "context", "key": "context"}


def _started(event: p.ToolStarted) -> dict[str, Any]:
    return {
        "tool_id": event.call_id,
        "name": event.name,
        "context": context_of(event.arguments),
        "args_text": event.arguments,
    }


def _finished(event: p.ToolFinished) -> dict[str, Any]:
    return {
        "tool_id": event.call_id,
        "name": event.name,
        "result": event.text,
        "result_text": event.text,
        "summary": event.summary,
        "is_error": event.is_error,
        "outcome": event.outcome,
        "duration_s": round(event.duration_s, 3),
        **event.shown,
    }


def context_of(arguments: str, limit: int = 120) -> str:
    """The one argument that tells a person what a call is about: its first string, shortened."""
    try:
        parsed = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments[:limit]
    if isinstance(parsed, dict):
        for value in parsed.values():
            if isinstance(value, str) and value:
                line = value.splitlines()[0]
                return line if len(line) <= limit else line[: limit - 1] + "…"
    return ""


def usage_of(usage: Usage, model: str) -> dict[str, Any]:
    """Token counters as clients read them."""
    return {
        "model": model,
        "input": usage.input,
        "output": usage.output,
        "cached": usage.cached,
        "reasoning": usage.reasoning,
        "prompt": usage.input,
        "completion": usage.output,
        "total": usage.input + usage.output,
    }


class Spent(msgspec.Struct, frozen=True):
    """What a session has used since it was opened here.

    Attributes:
        usage: tokens of all its model calls.
        calls: how many model calls.
        context_tokens: what the last one took in and gave out.
        filling: whether a person was told that history comes near its summary.
    """

    usage: Usage = Usage()
    calls: int = 0
    context_tokens: int = 0
    filling: bool = False

    def after(self, end: p.TurnEnd) -> Spent:
        """With one more turn."""
        context = end.context_tokens or self.context_tokens
        filling = end.filling if end.steps else self.filling
        return Spent(self.usage + end.usage, self.calls + end.steps, context, filling)

    def counters(self, model: str, context_max: int) -> dict[str, Any]:
        """As clients read them. `context_max` is in tokens, 0 if it is not known yet."""
        shown = {**usage_of(self.usage, model), "calls": self.calls}
        if context_max:
            shown["context_max"] = context_max
            shown["context_used"] = self.context_tokens
            shown["context_percent"] = round(100 * self.context_tokens / context_max)
        return shown


NOTHING_SPENT = Spent()


def complete(end: p.TurnEnd, turn_id: str, model: str) -> dict[str, Any]:
    """The payload of message.complete: exactly one per turn."""
    status = {"completed": "complete", "interrupted": "interrupted"}.get(end.state, "error")
    payload: dict[str, Any] = {
        "text": end.text,
        "status": status,
        "state": end.state,
        "cause": end.cause,
        "turn_id": turn_id,
        "steps": end.steps,
        "denied": end.denied,
        "usage": usage_of(end.usage, model),
    }
    if end.error is not None:
        payload["error"] = end.error.message
        payload["code"] = end.error.code
        payload["warning"] = end.error.message
        if not end.text:
            payload["text"] = end.error.message
    return payload


PAGE_CHARS_MAX = 3 * 1024 * 1024
"""Of messages in one answer, so that it fits into a frame however they are escaped."""


def page_of(rows: Sequence[ItemRow], before: int = 0) -> tuple[list[dict[str, Any]], int]:
    """The newest messages of a history that fit into one answer, and how many earlier ones do not.

    Args:
        rows: all entries, oldest first.
        before: only those before this entry; 0 for all.
    """
    found = [r for r in rows if r.kind == "message" and (not before or r.seq < before)]
    room, kept = PAGE_CHARS_MAX, 0
    for row in reversed(found):
        room -= len(row.message.text) + sum(len(c.arguments) for c in row.message.tool_calls)
        if room < 0 and kept:
            break
        kept += 1
    return [message_of(row) for row in found[len(found) - kept :]], len(found) - kept


def message_of(row: ItemRow) -> dict[str, Any]:
    """One entry of history for clients; `seq` is its number."""
    message = row.message
    if message.role == "tool":
        return {
            "seq": row.seq,
            "turn_id": row.turn_id,
            "role": "tool",
            "text": message.text,
            "content": message.text,
            "tool_call_id": message.tool_call_id,
            "is_error": message.is_error,
        }
    shown: dict[str, Any] = {
        "seq": row.seq,
        "turn_id": row.turn_id,
        "role": "system" if message.note else message.role,
        "text": message.text,
        "content": message.text,
    }
    if message.files:
        shown["files"] = [
            {"id": f.id, "name": f.name, "kind": f.kind, "about": f.about} for f in message.files
        ]
    if message.tool_calls:
        shown["tool_calls"] = [
            {
                "id": c.id, "name": c.name, "arguments": c.arguments,
                "context": context_of(c.arguments),
            }
            for c in message.tool_calls
        ]  # fmt: skip
    return shown
