"""Newline-delimited JSON on private copies of stdin and stdout.

The protocol's descriptors are moved off 0 and 1 and are close-on-exec; 0 becomes /dev/null and 1
becomes stderr, so neither a child nor a stray print can read or write the wire. Non-blocking mode
is a property of the shared description, so a child that sets it on its own copy must not confuse
us: the copies are read and written through the loop, which expects it.
"""

from __future__ import annotations

import asyncio
import os

from tenure.protocol.messages import FRAME_BYTES_MAX
from tenure.transports.base import TransportClosed


def take_stdio() -> tuple[int, int]:
    """Move the wire to private descriptors: (read, write). Call once, before any child starts."""
    read_fd = os.dup(0)
    write_fd = os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return read_fd, write_fd


class StdioTransport:
    """The one connection of ``serve --stdio``. Owns the two descriptors it is given."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._closed = False

    @classmethod
    async def open(cls, read_fd: int, write_fd: int) -> StdioTransport:
        """Connect to two descriptors, which are owned from here on."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=FRAME_BYTES_MAX + 1)
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_fd, "rb", buffering=0)
        )
        transport, protocol = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, os.fdopen(write_fd, "wb", buffering=0)
        )
        return cls(reader, asyncio.StreamWriter(transport, protocol, None, loop))

    @property
    def peer(self) -> str:
        """Who is at the other end."""
        return "stdio"

    async def receive(self) -> str | bytes:
        """The next line; see `Transport.receive`."""
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as exc:
                line = exc.partial
            except (asyncio.LimitOverrunError, OSError) as exc:
                raise TransportClosed(code=1009) from exc
            if line.strip():
                return line
            if not line or self._reader.at_eof():
                raise TransportClosed(listening=True)

    async def send(self, frame: bytes) -> None:
        """Send one line; see `Transport.send`."""
        if self._closed:
            raise TransportClosed
        self._writer.write(frame + b"\n")
        try:
            await self._writer.drain()
        except OSError as exc:
            self._closed = True
            raise TransportClosed(code=1006) from exc

    def send_nowait(self, frame: bytes, *, at_once: bool = False) -> bool:
        """Never: a pipe says only by waiting whether it takes more."""
        del frame, at_once
        return False

    def abort(self) -> None:
        """Close without flushing; see `Transport.abort`."""
        self._closed = True
        self._writer.transport.abort()

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        """Flush and close. Idempotent."""
        del code, reason
        self._closed = True
        self._writer.close()
