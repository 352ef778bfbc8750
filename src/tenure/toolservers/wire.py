"""The ends of a child that speaks JSON-RPC in lines, as the streams that the SDK reads and writes.

One line is one message. A line that is none is counted and shown in the log; too many of them, or
one that is too long, end the server. What is written is written whole, by a task of its own, so
that a cancelled call cannot leave half a line; and a call learns whether any of it was written.
"""

from __future__ import annotations

import asyncio
import select
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tenure.errors import ProcessError
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import run_in_thread
from tenure.paths import make_private
from tenure.sandbox.base import Output, Running

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

LINE_BYTES_MAX = 16 * 1024 * 1024
GARBAGE_MAX = 100
"""Lines that are no message, after which a server is taken for something else."""
STDERR_BYTES_MAX = 1024 * 1024
"""Of one start of a server: the rest is read slowly and dropped."""
LOG_BYTES_MAX = 1024 * 1024
SLOW_S = 0.05
WHOLE_WRITE_BYTES = select.PIPE_BUF
"""A write of so much to a pipe happens whole or not at all."""


class Dispatch:
    """Whether a request has left us. Set by the outbox, read by whoever made the request."""

    __slots__ = ("begun",)

    def __init__(self) -> None:
        self.begun = False


DISPATCH: ContextVar[Dispatch | None] = ContextVar("dispatch", default=None)
"""The request that the present task is making."""


class Lines:
    """Splits what a child writes.

    Args:
        line_bytes_max: of one line.

    Attributes:
        overlong: a line was longer than that; nothing after it can be read.
    """

    def __init__(self, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self._max = line_bytes_max
        self._pieces: list[bytes] = []
        self._size = 0
        self.overlong = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that `piece` completes, without their ends; none of them is empty."""
        *whole, rest = piece.split(b"\n")
        found: list[bytes] = []
        for line in whole:
            self._keep(line)
            found.append(b"".join(self._pieces).strip())
            self._pieces, self._size = [], 0
        self._keep(rest)
        return [line for line in found if line]

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max:
            self.overlong = True
            self._pieces = []
        elif part:
            self._pieces.append(part)


class _Letter:
    """A message on its way."""

    __slots__ = ("data", "dispatch", "done")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.dispatch = DISPATCH.get()
        self.done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()


class Outbox:
    """What is written to a child. The SDK's ``WriteStream``.

    Args:
        running: the child.
        closed: raised to whoever writes when no more can be written.
    """

    def __init__(self, running: Running, closed: type[Exception]) -> None:
        self._running = running
        self._error = closed
        self._letters: deque[_Letter] = deque()
        self._news = asyncio.Event()
        self._closed = False

    async def send(self, item: SessionMessage, /) -> None:
        """Have a message written, and wait for that.

        Cancellation: what has not begun to be written never is; what has is written whole.
        """
        if self._closed:
            raise self._error
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        letter = _Letter(text.encode() + b"\n")
        self._letters.append(letter)
        self._news.set()
        try:
            written = await asyncio.shield(letter.done)
        except asyncio.CancelledError:
            if letter in self._letters:
                self._letters.remove(letter)
            raise
        if not written:
            raise self._error

    async def pump(self) -> None:
        """Write what comes, in its order. Runs as a task until it is cancelled, or cannot."""
        try:
            while True:
                while not self._letters:
                    self._news.clear()
                    await self._news.wait()
                letter = self._letters.popleft()
                if not await self._write(letter):
                    return
        finally:
            self.close()

    async def _write(self, letter: _Letter) -> bool:
        if letter.dispatch is not None:
            letter.dispatch.begun = True
        try:
            await self._running.write(letter.data)
        except ProcessError:
            if letter.dispatch is not None and len(letter.data) <= WHOLE_WRITE_BYTES:
                letter.dispatch.begun = False
            _settle(letter, written=False)
            return False
        except BaseException:
            _settle(letter, written=False)
            raise
        _settle(letter, written=True)
        return True

    def close(self) -> None:
        """Refuse everything from now on. Idempotent."""
        self._closed = True
        while self._letters:
            _settle(self._letters.popleft(), written=False)

    async def aclose(self) -> None:
        """The same, for the SDK."""
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.close()


def _settle(letter: _Letter, *, written: bool) -> None:
    if not letter.done.done():
        letter.done.set_result(written)


class ServerLog:
    """What servers of one name say on stderr: a bounded 0600 file, and the one before it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def add(self, scope: Scope, text: bytes) -> None:
        """Append; a disk that refuses costs only the text."""
        try:
            await run_in_thread(scope, append_log, self.path, text)
        except OSError:
            return


def append_log(path: Path, text: bytes) -> None:
    """Append to a bounded file; blocks."""
    make_private(path.parent)
    if path.exists() and path.stat().st_size + len(text) > LOG_BYTES_MAX:
        path.replace(path.with_name(f"{path.name}.1"))
    with open(path, "ab", opener=_private) as file:
        file.write(text[-LOG_BYTES_MAX:])


def _private(path: str, flags: int) -> int:
    import os

    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


async def drain_errors(reader: Output, log: ServerLog, scope: Scope) -> None:
    """Read stderr to its end: into the log, and slowly past it once it is too much."""
    taken = 0
    while piece := await reader.read():
        taken += len(piece)
        if taken <= STDERR_BYTES_MAX:
            await log.add(scope, piece)
        elif taken - len(piece) <= STDERR_BYTES_MAX:
            await log.add(scope, b"\n[further output of this start is not kept]\n")
        else:
            await scope.clock.sleep(SLOW_S)


class Inbox:
    """What a child writes, as messages.

    Args:
        parse: makes a message of a line; raises ValueError.
        deliver: takes it, waiting while the reader is busy.
    """

    def __init__(self, parse: Callable[[bytes], Any], deliver: Callable[[Any], Any]) -> None:
        self._parse = parse
        self._deliver = deliver
        self._lines = Lines()
        self.garbage = 0
        self.first_garbage = ""

    async def drain(self, reader: Output) -> str:
        """Read to the end; why nothing more is read (empty: it has ended)."""
        while piece := await reader.read():
            for line in self._lines.feed(piece):
                await self._take(line)
                if self.garbage >= GARBAGE_MAX:
                    return f"it does not speak the protocol; it says {self.first_garbage!r}"
            if self._lines.overlong:
                return f"it sent a message of more than {LINE_BYTES_MAX >> 20} MiB"
            await asyncio.sleep(0)  # a pipe that is never empty must not hold the loop
        return ""

    async def _take(self, line: bytes) -> None:
        try:
            message = self._parse(line)
        except ValueError:
            self.garbage += 1
            self.first_garbage = self.first_garbage or line[:80].decode("utf-8", "replace")
            if self.garbage % 16 == 0:
                await asyncio.sleep(0)
            return
        await self._deliver(message)
