"""What a command prints, kept within limits: of memory, of events and of disk."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Callable
from pathlib import Path

from tenure.ids import new_id
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import run_in_thread
from tenure.paths import make_private
from tenure.sandbox.base import Output
from tenure.tools.clip import marker

SPILL_BYTES_MAX = 32 * 1024 * 1024
"""The most that one call leaves on disk."""
BLANK = b"***"
FLUSH_BYTES = 256 * 1024
LIVE_BYTES_MAX = 256 * 1024
"""The most that one call shows while it runs."""


class Blanker:
    """Blanks secrets in a stream of bytes, also where one is cut in two by the pieces.

    Args:
        secrets: what must not pass; nothing else is changed.
    """

    def __init__(self, secrets: tuple[str, ...]) -> None:
        found = {secret.encode("utf-8", "surrogateescape") for secret in secrets if secret}
        self._secrets = sorted(found, key=len, reverse=True)
        self._kept = b""

    def feed(self, piece: bytes) -> bytes:
        """What may go on: without the end that may be the beginning of a secret."""
        if not self._secrets:
            return piece
        text = self._kept + piece
        for secret in self._secrets:
            text = text.replace(secret, BLANK)
        keep = max(_overlap(text, secret) for secret in self._secrets)
        cut = len(text) - keep
        self._kept = text[cut:]
        return text[:cut]

    def rest(self) -> bytes:
        """What was kept back, at the end of the stream."""
        rest, self._kept = self._kept, b""
        return rest


def _overlap(text: bytes, secret: bytes) -> int:
    """How many bytes at the end of `text` are the beginning of `secret`."""
    for size in range(min(len(text), len(secret) - 1), 0, -1):
        if text.endswith(secret[:size]):
            return size
    return 0


class Capture:
    """Keeps head and tail in memory, the whole on disk up to a limit, and shows the beginning live.

    Args:
        bytes_max: what the model gets, in bytes.
        spill_dir: where the whole goes once it is more than that; the file's name is ours.
        show: called with live pieces; never blocks.
        secrets: blanked wherever they are printed.
    """

    def __init__(
        self,
        bytes_max: int,
        spill_dir: Path,
        show: Callable[[str], None],
        secrets: tuple[str, ...] = (),
    ) -> None:
        self._blanker = Blanker(secrets)
        self._head_max = bytes_max * 2 // 3
        self._tail_max = bytes_max - self._head_max
        self._show = show
        self._shown = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = bytearray()
        self._tail = bytearray()
        self._unwritten = bytearray()
        self._written = 0
        self._spill_to = spill_dir / f"{new_id('out')}.txt"
        self.spill: Path | None = None
        """The file with the whole, once there is one."""
        self.total = 0
        """Bytes seen."""

    async def drain(self, reader: Output, scope: Scope) -> None:
        """Take everything up to the end of `reader`. Cancellable: what came is kept."""
        while piece := await reader.read():
            self.take(self._blanker.feed(piece))
            if len(self._unwritten) >= FLUSH_BYTES:
                await self.flush(scope)
            await asyncio.sleep(0)  # a pipe that is never empty must not hold the loop
        self.take(self._blanker.rest())

    def take(self, piece: bytes) -> None:
        """Add a piece. Synchronous."""
        self.total += len(piece)
        self._show_live(piece)
        room = SPILL_BYTES_MAX - self._written - len(self._unwritten)
        self._unwritten += piece[: max(0, room)]
        missing = self._head_max - len(self._head)
        self._head += piece[:missing]
        self._tail += piece[max(0, missing) :][-self._tail_max :] if self._tail_max else b""
        del self._tail[: -self._tail_max]

    async def flush(self, scope: Scope) -> None:
        """Write what is not on disk yet, if the whole is more than the model gets."""
        if self.total <= self._head_max + self._tail_max or not self._unwritten:
            return
        piece = bytes(self._unwritten)
        self._unwritten.clear()
        self._written += len(piece)
        try:
            await run_in_thread(scope, _append, self._spill_to, piece)
        except OSError:
            self._written = SPILL_BYTES_MAX  # a full disk: the head and tail must do
        else:
            self.spill = self._spill_to

    def text(self) -> str:
        """Head and tail, with a marker between them if anything is missing."""
        missing = self.total - len(self._head) - len(self._tail)
        if missing <= 0:
            return bytes(self._head + self._tail).decode("utf-8", "replace")
        note = ""
        if self.spill is not None:
            cut = f" (its first {SPILL_BYTES_MAX} bytes)" if self.total > SPILL_BYTES_MAX else ""
            note = f"all of it: {self.spill}{cut}"
        head = self._head.decode("utf-8", "replace")
        return f"{head}\n{marker(missing, note)}\n{self._tail.decode('utf-8', 'replace')}"

    def _show_live(self, piece: bytes) -> None:
        if self._shown >= LIVE_BYTES_MAX:
            return
        piece = piece[: LIVE_BYTES_MAX - self._shown]
        self._shown += len(piece)
        text = self._decoder.decode(piece)
        if text:
            self._show(text)
        if self._shown >= LIVE_BYTES_MAX:
            self._show("\n[… more output, not shown live …]\n")


def _append(path: Path, piece: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    make_private(path.parent)
    fd = os.open(path, flags, 0o600)
    try:
        view = memoryview(piece)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)
