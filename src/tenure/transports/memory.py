"""Two ends in one process: how `run` and `chat` speak to a gateway of their own."""

from __future__ import annotations

import asyncio
from collections import deque

from tenure.transports.base import TransportClosed

QUEUE_MAX = 1024
"""Messages that may wait at one end; a sender then waits, as on a socket."""


class MemoryTransport:
    """One end. Made by `memory_pair`."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._inbox: deque[bytes] = deque()
        self._other: MemoryTransport = self
        self._closed = False
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    def connect(self, other: MemoryTransport) -> None:
        """Join two ends."""
        self._other = other

    @property
    def peer(self) -> str:
        """Who is at the other end."""
        return self._peer

    async def receive(self) -> str | bytes:
        """The next message; see `Transport.receive`."""
        while not self._inbox:
            if self._closed:
                raise TransportClosed
            self._readable.clear()
            await self._readable.wait()
        frame = self._inbox.popleft()
        if len(self._inbox) < QUEUE_MAX:
            self._writable.set()
        return frame

    async def send(self, frame: bytes) -> None:
        """Send one message; see `Transport.send`."""
        other = self._other
        while len(other._inbox) >= QUEUE_MAX and not self._closed:  # noqa: SLF001 - our own twin
            other._writable.clear()  # noqa: SLF001
            await other._writable.wait()  # noqa: SLF001
        if self._closed:
            raise TransportClosed
        other._inbox.append(frame)  # noqa: SLF001
        other._readable.set()  # noqa: SLF001

    def send_nowait(self, frame: bytes, *, at_once: bool = False) -> bool:
        """Send one message at once, or not at all; see `Transport.send_nowait`."""
        del at_once
        other = self._other
        if self._closed or len(other._inbox) >= QUEUE_MAX:  # noqa: SLF001 - our own twin
            return False
        other._inbox.append(frame)  # noqa: SLF001
        other._readable.set()  # noqa: SLF001
        return True

    def abort(self) -> None:
        """End both directions; see `Transport.abort`."""
        for end in (self, self._other):
            end._end()  # noqa: SLF001 - our own twin

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        """End both directions; what was sent before can still be received."""
        del code, reason
        for end in (self, self._other):
            end._end()  # noqa: SLF001 - our own twin

    def _end(self) -> None:
        self._closed = True
        self._readable.set()
        self._writable.set()


def memory_pair(peer: str = "in-process") -> tuple[MemoryTransport, MemoryTransport]:
    """The two ends of one connection."""
    a, b = MemoryTransport(peer), MemoryTransport(peer)
    a.connect(b)
    b.connect(a)
    return a, b
