"""Turns what the starter model writes into events: prose at once, fenced calls as calls. Sans I/O.

The instructions give a call one form, so here (and only here) a fenced JSON block with exactly the
name of an offered tool and an object of arguments *is* a call, after prose too. Everything else in
a fence is text.
"""

from __future__ import annotations

import re

import msgspec

from tenure.conversation import ToolCall, ToolSpec
from tenure.models.base import ModelEvent, TextDelta, ToolCallReady, ToolCallStarted

_OPEN = "```json"
_CLOSE = "\n```"
_NAMED = re.compile(r'\s*\{\s*"name"\s*:\s*"([^"\\]+)"\s*,\s*"arguments"\s*:')


class _Written(msgspec.Struct, forbid_unknown_fields=True):
    """A call as it stands in the fence."""

    name: str
    arguments: msgspec.Raw


class CallReader:
    """Reads one answer.

    Attributes:
        called: a call was found; nothing after it counts.
        spoke: prose was told.
    """

    def __init__(self, tools: tuple[ToolSpec, ...], call_id: str) -> None:
        self._names = {tool.name for tool in tools}
        self._call_id = call_id
        self._held = ""  # not told yet: the beginning of a fence, or a fence and what is in it
        self._announced = False
        self.called = False
        self.spoke = False

    def feed(self, text: str) -> list[ModelEvent]:
        """The events that `text` makes certain."""
        if self.called:
            return []
        self._held += text
        events: list[ModelEvent] = []
        while self._held and not self.called:
            start = self._held.find(_OPEN) if self._names else -1
            if start < 0:
                self._tell(len(self._held) - _partial(self._held, self._names), events)
                break
            self._tell(start, events)
            end = self._held.find(_CLOSE, len(_OPEN))
            if end < 0:
                self._announce(events)
                break
            self._block(end, events)
        return events

    def finish(self) -> list[ModelEvent]:
        """What is left at the end of the answer; an unclosed fence may still be a whole call."""
        events: list[ModelEvent] = []
        if self._held and not self.called:
            if self._held.startswith(_OPEN):
                self._block(len(self._held), events)
            self._tell(len(self._held), events)
        return events

    def _tell(self, count: int, events: list[ModelEvent]) -> None:
        if count > 0:
            self.spoke = True
            events.append(TextDelta(self._held[:count]))
            self._held = self._held[count:]

    def _block(self, end: int, events: list[ModelEvent]) -> None:
        """A fence that stands at the beginning of what is held and ends at `end`."""
        call = self._call(self._held[len(_OPEN) : end])
        if call is None:
            self._announced = False
            self._tell(min(end + len(_CLOSE), len(self._held)), events)
            return
        self._start(call.name, events)
        events.append(ToolCallReady(call))
        self.called = True
        self._held = ""

    def _announce(self, events: list[ModelEvent]) -> None:
        named = _NAMED.match(self._held, len(_OPEN))
        if named and named.group(1) in self._names:
            self._start(named.group(1), events)

    def _start(self, name: str, events: list[ModelEvent]) -> None:
        if not self._announced:
            self._announced = True
            events.append(ToolCallStarted(0, name))

    def _call(self, inside: str) -> ToolCall | None:
        try:
            written = msgspec.json.decode(inside, type=_Written)
        except msgspec.MsgspecError:
            return None
        arguments = bytes(written.arguments).decode()
        if written.name not in self._names or not arguments.startswith("{"):
            return None
        return ToolCall(self._call_id, written.name, arguments)


def _partial(text: str, names: set[str]) -> int:
    """How many characters at the end of `text` may be the beginning of a fence."""
    if not names:
        return 0
    longest = min(len(_OPEN) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if text.endswith(_OPEN[:n])), 0)
