"""Tool calls and sub-agents, told in single lines: the same in `run` and in the chat."""

from __future__ import annotations

import difflib
import itertools
import json
from collections.abc import Iterator
from typing import Any

NAME_CHARS = 60
"""Of a call that is named with its result."""
CHANGE_LINES = 16
"""Of what a call writes, when it is told."""
CHANGE_CHARS = 160
"""Of one of these lines."""
UNSEEN = "\N{REPLACEMENT CHARACTER}"
COMPARED_LINES = 400
"""Longer texts are not compared: their lines go, and come."""


class Calls:
    """The calls that run. Where several do so side by side, a result says whose it is."""

    def __init__(self) -> None:
        self._running: dict[str, str] = {}
        self._several = False

    def clear(self) -> None:
        """A turn begins: what was left of another one is over."""
        self._running.clear()
        self._several = False

    def began(self, call: dict[str, Any]) -> None:
        """Take the payload of tool.start."""
        name = f"{call['name']} {call['context']}".rstrip()
        self._running[call["tool_id"]] = name
        self._several = self._several or len(self._running) > 1

    def result(self, call: dict[str, Any]) -> str:
        """What the payload of tool.complete says, in a line."""
        name = self._running.pop(call["tool_id"], call["name"])
        told: str = call["summary"] or call["outcome"]
        several, self._several = self._several, self._several and bool(self._running)
        if not several:
            return told
        return f"{name if len(name) <= NAME_CHARS else name[: NAME_CHARS - 1] + '…'}: {told}"


def change_of(call: dict[str, Any]) -> list[str]:
    """What the call of a tool.start would change in a file, the first lines of it.

    Whoever is asked must see it. Lines that go begin with a minus, lines that come with a plus.
    """
    try:
        given = json.loads(call.get("args_text") or "{}")
    except ValueError:  # too long to be told whole
        return []
    match call["name"], given:
        case "write", {"content": str(content)}:
            lines: Iterator[str] = (f"+{line}" for line in content.splitlines())
        case "edit", {"old": str(old), "new": str(new)}:
            lines = _difference(old.splitlines(), new.splitlines())
        case _:
            return []
    told = [_visible(line) for line in itertools.islice(lines, CHANGE_LINES)]
    more = sum(1 for _ in lines)
    return [*told, f" … {more:,} more line{'s' * (more != 1)}"] if more else told


def _difference(old: list[str], new: list[str]) -> Iterator[str]:
    if len(old) + len(new) > COMPARED_LINES:
        return itertools.chain((f"-{line}" for line in old), (f"+{line}" for line in new))
    found = difflib.unified_diff(old, new, n=1, lineterm="")
    return (line for line in itertools.islice(found, 2, None) if not line.startswith("@@"))


def _visible(line: str) -> str:
    """A line of a file on one line of a terminal, which it cannot steer."""
    shown = "".join(c if c.isprintable() else UNSEEN for c in line.expandtabs(4))
    return shown if len(shown) <= CHANGE_CHARS else f"{shown[: CHANGE_CHARS - 1]}…"


def note_of(payload: dict[str, Any], command: str) -> str:
    """What memory.changed says, in a line, and what may be done about it."""
    if payload["state"] == "accepted":
        return f"remembered ({command} remove {payload['id']}): {payload['text']}"
    number = payload["id"]
    return f"to be remembered? ({command} accept {number} or reject {number}): {payload['text']}"


def sub_agent(kind: str, payload: dict[str, Any]) -> str:
    """What an event of a sub-agent says, in a line (a report's first); empty: nothing of it.

    Indented by its depth. The number is the one that ``/agents`` takes.
    """
    match kind:
        case "subagent.start":
            told = f"begins: {payload['goal']}"
        case "subagent.tool":
            told = f"• {payload['tool_name']} {payload.get('tool_preview', '')}".rstrip()
        case "subagent.complete":
            told = _end(payload)
        case _:
            return ""
    return f"{'  ' * payload['depth']}↳ sub-agent {payload['number']} {told}"


def _end(payload: dict[str, Any]) -> str:
    why = f" ({payload['text']})" if payload.get("text") else ""
    first = payload.get("summary", "").strip().partition("\n")[0]
    return f"{payload['status']}{why}{f': {first}' if first else ''}"
