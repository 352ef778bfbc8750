"""What waits to be sent to one peer: bounded in bytes and time, streams merged, answers kept.

While nothing waits and the socket takes it, a frame goes out at once, without a task's turn. Text
that streams faster than `WINDOW_S` is merged: the first piece goes at once, what follows in the
window goes as one. Anything else that is published ends the window, so the order never changes and
the first words after it are not held.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from typing import Any, Protocol

from tenure.clock import Clock, TimerHandle
from tenure.protocol.messages import EventParams, encode_event

EVENT_BYTES_MAX = 8 * 1024 * 1024
"""Events that may wait for a slow peer; over it the peer is told and dropped, alone."""
EVENT_BYTES_LOW = 1024 * 1024
"""Whoever sends much at once (a replay) goes on when no more than this waits."""
ANSWER_BYTES_MAX = 8 * 1024 * 1024
"""Answers that may wait for a peer which asks and does not read; over it, it is not read either."""
STALL_S = 60.0
"""How long events may wait for a peer that takes nothing at all; then it is dropped likewise."""
WINDOW_S = 0.008
"""Text is sent at most this often, in seconds: 125 times a second are more than eyes can follow."""
WINDOW_BYTES = 16 * 1024
"""More than this does not wait for the end of the window."""
_MERGED = frozenset({"message.delta", "reasoning.delta"})


class SendNowait(Protocol):
    """See `Transport.send_nowait`."""

    def __call__(self, frame: bytes, *, at_once: bool = False) -> bool:
        """Whether it was sent."""


class Outbox:
    """A queue with one consumer. `put_answer` and `put_event` never wait.

    Args:
        clock: time.
        send_nowait: sends a frame if that is possible without waiting.
    """

    __slots__ = (
        "_answer_bytes", "_bytes", "_clock", "_entries", "_low", "_moved_at", "_next_text_at",
        "_parked", "_room", "_send_nowait", "_timer", "overflowed", "sending",
    )  # fmt: skip

    def __init__(self, clock: Clock, send_nowait: SendNowait) -> None:
        self._clock = clock
        self._send_nowait = send_nowait
        self._entries: deque[bytes | EventParams] = deque()
        self._bytes = 0
        self._answer_bytes = 0
        self._parked: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._low: asyncio.Future[None] | None = None
        self._timer: TimerHandle | None = None
        self._next_text_at = 0.0
        self._moved_at = 0.0
        self.overflowed = False
        self.sending = False
        """The consumer is sending what it took; everything new waits behind it."""

    def __len__(self) -> int:
        return len(self._entries)

    def put_answer(self, frame: bytes) -> None:
        """Queue an answer. It is never dropped; see `room` for what bounds them."""
        if not self._entries and not self.sending and self._send_nowait(frame):
            return
        self._add(frame)
        self._answer_bytes += len(frame)
        if self._answer_bytes > ANSWER_BYTES_MAX:
            self._room.clear()
        self._wake()

    def put_event(self, event: EventParams) -> None:
        """Queue an event; text that follows unsent text of the same kind is joined to it."""
        if self.overflowed:
            return
        now = self._clock.monotonic()
        streams = event.type in _MERGED
        if not streams:
            self._next_text_at = 0.0
        early = streams and now < self._next_text_at
        free = not self._entries and not self.sending and not early
        # A piece of text is seen by a person, and comes once in a window.
        if free and self._send_nowait(encode_event(event), at_once=streams):
            if streams:
                self._next_text_at = now + WINDOW_S
            return
        self._queue(event, now)
        if not early or self._bytes > WINDOW_BYTES:
            self._wake()
        elif self._timer is None and self._parked is not None:
            self._timer = self._clock.call_later(self._next_text_at - now, self._wake)

    def _queue(self, event: EventParams, now: float) -> None:
        merged = self._merged(event) if event.type in _MERGED else None
        self._bytes += len(event.payload["text"]) if merged else _weight(event.payload)
        stalled = bool(self._entries) and now - self._moved_at > STALL_S
        if self._bytes > EVENT_BYTES_MAX or stalled:
            self.overflow()
        elif merged is not None:
            self._entries[-1] = merged
        else:
            self._add(event)

    def _add(self, entry: bytes | EventParams) -> None:
        if not self._entries:
            self._moved_at = self._clock.monotonic()
        self._entries.append(entry)

    def overflow(self) -> None:
        """Take no more events: the peer is too slow. What waits is sent, then the end is told."""
        self.overflowed = True
        self._end_low()
        self._wake()

    def _merged(self, event: EventParams) -> EventParams | None:
        """The last entry with this one's text behind its own, if they are of a kind.

        A fresh value: other connections share the one that was published.
        """
        last = self._entries[-1] if self._entries else None
        if (
            not isinstance(last, EventParams)
            or last.type != event.type
            or last.session_id != event.session_id
        ):
            return None
        text = last.payload["text"] + event.payload["text"]
        return EventParams(last.type, last.session_id, {"text": text}, transient=True)

    async def get(self) -> bytes:
        """The next frame, encoded; empty when the peer is to be dropped. Cancelling loses nothing.

        `sending` is set with it; the consumer clears it when the frame is out.
        """
        while not self.overflowed and not self._entries:
            self._parked = asyncio.get_running_loop().create_future()
            try:
                await self._parked
            finally:
                self._parked = None
        if not self._entries:
            return b""
        entry = self._entries.popleft()
        self._moved_at = self._clock.monotonic()
        self.sending = True
        if isinstance(entry, bytes):
            self._answer_bytes -= len(entry)
            if self._answer_bytes <= ANSWER_BYTES_MAX:
                self._room.set()
            return entry
        self._bytes -= _weight(entry.payload)
        if self._low is not None and self._bytes <= EVENT_BYTES_LOW:
            self._end_low()
        if entry.type in _MERGED:
            self._next_text_at = self._moved_at + WINDOW_S
        return encode_event(entry)

    async def room(self) -> None:
        """Wait while too many answers wait. Read the peer's next frame only then."""
        await self._room.wait()

    async def low(self) -> None:
        """Wait while much waits for the peer, so that it is not taken for slow. Cancellable."""
        while self._bytes > EVENT_BYTES_LOW and not self.overflowed:
            if self._low is None:
                self._low = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._low)

    def _end_low(self) -> None:
        if self._low is not None and not self._low.done():
            self._low.set_result(None)
        self._low = None

    def give_up(self) -> None:
        """Nothing is sent any more: let the reader go on, to meet the end of the transport."""
        self._answer_bytes = -sys.maxsize
        self._room.set()
        self.overflowed = True
        self._end_low()
        self._end_window()

    def _end_window(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        self._end_window()
        if self._parked is not None and not self._parked.done():
            self._parked.set_result(None)


def _weight(payload: Any) -> int:
    """A cheap estimate of bytes: the texts, plus a little for the rest."""
    if not isinstance(payload, dict):
        return 64
    return 64 + sum(len(value) if isinstance(value, str) else 32 for value in payload.values())
