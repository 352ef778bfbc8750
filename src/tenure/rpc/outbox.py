"""What waits to be sent to one peer: bounded in bytes, streams merged, answers never dropped."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from typing import Any

from tenure.protocol.messages import EventParams, encode_event

EVENT_BYTES_MAX = 8 * 1024 * 1024
"""Events that may wait for a slow peer; over it the peer is told and dropped, alone."""
ANSWER_BYTES_MAX = 8 * 1024 * 1024
"""Answers that may wait for a peer which asks and does not read; over it, it is not read either."""
_MERGED = frozenset({"message.delta", "reasoning.delta"})


class Outbox:
    """A queue with one consumer. `put` never waits."""

    __slots__ = ("_answer_bytes", "_bytes", "_entries", "_parked", "_room", "overflowed")

    def __init__(self) -> None:
        self._entries: deque[bytes | EventParams] = deque()
        self._bytes = 0
        self._answer_bytes = 0
        self._parked: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self.overflowed = False

    def __len__(self) -> int:
        return len(self._entries)

    def put_answer(self, frame: bytes) -> None:
        """Queue an answer. It is never dropped; see `room` for what bounds them."""
        self._entries.append(frame)
        self._answer_bytes += len(frame)
        if self._answer_bytes > ANSWER_BYTES_MAX:
            self._room.clear()
        self._wake()

    def put_event(self, event: EventParams) -> None:
        """Queue an event; text that follows unsent text of the same kind is joined to it."""
        if self.overflowed:
            return
        merged = self._merged(event)
        self._bytes += len(event.payload["text"]) if merged else _weight(event.payload)
        if self._bytes > EVENT_BYTES_MAX:
            self.overflowed = True
        elif merged is not None:
            self._entries[-1] = merged
        else:
            self._entries.append(event)
        self._wake()

    def overflow(self) -> None:
        """Take no more events; what waits is sent, then the end is told."""
        self.overflowed = True
        self._wake()

    def _merged(self, event: EventParams) -> EventParams | None:
        """The last entry with this one's text behind its own, if they are of a kind.

        A fresh value: other connections share the one that was published.
        """
        last = self._entries[-1] if self._entries else None
        if (
            event.type not in _MERGED
            or not isinstance(last, EventParams)
            or last.type != event.type
            or last.session_id != event.session_id
        ):
            return None
        text = last.payload["text"] + event.payload["text"]
        return EventParams(last.type, last.session_id, {"text": text}, transient=True)

    async def get(self) -> bytes:
        """The next frame, encoded. Cancelling it loses nothing."""
        while not self._entries and not self.overflowed:
            self._parked = asyncio.get_running_loop().create_future()
            try:
                await self._parked
            finally:
                self._parked = None
        if self.overflowed and not self._entries:
            return b""
        entry = self._entries.popleft()
        if isinstance(entry, bytes):
            self._answer_bytes -= len(entry)
            if self._answer_bytes <= ANSWER_BYTES_MAX:
                self._room.set()
            return entry
        self._bytes -= _weight(entry.payload)
        return encode_event(entry)

    async def room(self) -> None:
        """Wait while too many answers wait. Read the peer's next frame only then."""
        await self._room.wait()

    def give_up(self) -> None:
        """Nothing is sent any more: let the reader go on, to meet the end of the transport."""
        self._answer_bytes = -sys.maxsize
        self._room.set()

    def _wake(self) -> None:
        if self._parked is not None and not self._parked.done():
            self._parked.set_result(None)


def _weight(payload: Any) -> int:
    """A cheap estimate of bytes: the texts, plus a little for the rest."""
    if not isinstance(payload, dict):
        return 64
    return 64 + sum(len(value) if isinstance(value, str) else 32 for value in payload.values())
