"""What one window has shown of a session, so that attaching again shows only what it has missed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tenure.protocol.messages import EventParams


class Seen:
    """The place up to which a window knows a session. Lives as long as the window.

    Attributes:
        session: which one; empty before the first.
        running: the turn whose end has not been shown; empty if none.
    """

    def __init__(self) -> None:
        self.session = ""
        self.running = ""
        self._turns: set[str] = set()
        self._epoch = self._seq = 0

    def begin(self, session: str) -> None:
        """The window shows `session` from now on; nothing changes where it did already."""
        if session != self.session:
            self.__init__()  # type: ignore[misc]
            self.session = session

    def cursor(self, session: str) -> dict[str, int] | None:
        """The last event known of `session`; None if there is none."""
        known = session == self.session and self._epoch
        return {"epoch": self._epoch, "seq": self._seq} if known else None

    def event(self, event: EventParams) -> None:
        """An event of the session is shown."""
        if event.seq:
            self._epoch, self._seq = event.epoch, event.seq
        if event.type == "message.start":
            self.running = event.payload["turn_id"]
            self._turns.add(self.running)
        elif event.type == "message.complete" and event.payload["turn_id"] == self.running:
            self.running = ""

    def snapshot(self, opened: dict[str, Any]) -> None:
        """What an answer told is shown."""
        self._epoch, self._seq = opened["epoch"], opened["seq"]
        messages = opened["messages"]
        self._turns |= {message["turn_id"] for message in messages}
        self.running = messages[-1]["turn_id"] if messages and opened["inflight"] else ""

    def missed(self, messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Of a history those entries that are not on the screen yet, oldest first.

        A turn that was cut off in the middle of what was shown adds its last words, which whoever
        shows them has to compare with what is there.
        """
        last = next((m for m in reversed(messages) if m["turn_id"] == self.running), None)
        for message in messages:
            half = message is last and self.running and message["role"] == "assistant"
            if message["turn_id"] not in self._turns or half:
                yield message
