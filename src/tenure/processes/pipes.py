"""Our ends of a child's pipes, on the loop, without a buffer of our own.

The kernel's pipe (64 KiB) is the buffer: what nobody reads stays there and holds the writer back.
The descriptors are ours alone: close-on-exec, and non-blocking on our own open file description, so
nothing that the child does to its end changes ours.
"""

from __future__ import annotations

import asyncio
import os

from tenure.errors import ProcessError

CHUNK = 65_536
REST_MAX = 1 << 20
"""The largest pipe that an unprivileged process can ask for; what is kept of it after the end."""


class ByteReader:
    """What a child writes. One reader at a time."""

    __slots__ = ("_fd", "_finished", "_rest", "_waiting")

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._finished = False
        self._rest = b""
        self._waiting: asyncio.Future[None] | None = None

    async def read(self, n: int = CHUNK) -> bytes:
        """Up to `n` bytes as soon as there are any; b"" at the end.

        The end is the pipe's own, or: the process has exited and the pipe is empty. So a grandchild
        that keeps the pipe open holds nobody up. Cancelling loses nothing.
        """
        while True:
            data = self.read_nowait(n)
            if data is not None:
                return data
            if self._finished:
                return b""
            await self._readable()

    def read_nowait(self, n: int = CHUNK) -> bytes | None:
        """Up to `n` bytes that are there now; b"" at the pipe's end, None when it is empty."""
        if self._fd < 0:
            data, self._rest = self._rest[:n], self._rest[n:]
            return data
        try:
            data = os.read(self._fd, n)
        except BlockingIOError:
            return None
        except OSError:
            data = b""  # EIO: the other end of a terminal has gone
        if not data:
            self._close()
        return data

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        if self._waiting is not None:
            raise ProcessError("Two readers wait on one pipe; it has one reader.")
        self._waiting = loop.create_future()
        loop.add_reader(self._fd, self._wake)
        try:
            await self._waiting
        finally:
            self._waiting = None
            if self._fd >= 0:
                loop.remove_reader(self._fd)

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def finish(self) -> None:
        """The process has exited: from now on an empty pipe is the end."""
        self._finished = True
        self._wake()

    def close(self) -> None:
        """Free the descriptor; what is in the pipe stays readable. Idempotent."""
        rest = bytearray()
        while self._fd >= 0 and len(rest) < REST_MAX:
            data = self.read_nowait()
            if not data:
                break
            rest += data
        self._rest += bytes(rest)
        self._close()

    def _close(self) -> None:
        if self._fd < 0:
            return
        if self._waiting is not None:
            asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1
        self._wake()


class ByteWriter:
    """A child's input."""

    __slots__ = ("_fd", "_turn", "_waiting")

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._turn = asyncio.Lock()  # writes of several tasks must not interleave
        self._waiting: asyncio.Future[None] | None = None

    async def write(self, data: bytes) -> None:
        """Write all of `data`, waiting while the pipe is full.

        Cancelling may leave a part written.

        Raises:
            ProcessError: the child has closed its input, or it was closed here.
        """
        view = memoryview(data)
        async with self._turn:
            while view:
                if self._fd < 0:
                    raise ProcessError("The process's input is closed.")
                try:
                    view = view[os.write(self._fd, view) :]
                except BlockingIOError:
                    await self._writable()
                except OSError as exc:
                    self.close()
                    raise ProcessError("The process has closed its input.") from exc

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        loop.add_writer(self._fd, self._wake)
        try:
            await self._waiting
        finally:
            self._waiting = None
            if self._fd >= 0:
                loop.remove_writer(self._fd)

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def close(self) -> None:
        """End of input. Idempotent."""
        if self._fd < 0:
            return
        if self._waiting is not None:
            asyncio.get_running_loop().remove_writer(self._fd)
        os.close(self._fd)
        self._fd = -1
        self._wake()
