"""A transport moves whole messages between two peers and says when it is over. Nothing else."""

from __future__ import annotations

from typing import Protocol

from tenure.errors import TransportError


class TransportClosed(TransportError):  # noqa: N818 - a state that readers meet, not a fault
    """The other side is gone, or we closed.

    Args:
        message: one sentence.
        code: a WebSocket close code, 1000 if there is none.
        listening: the other side has said all that it will say, and may still be reading.
    """

    def __init__(
        self,
        message: str = "The connection is closed.",
        *,
        code: int = 1000,
        listening: bool = False,
    ) -> None:
        super().__init__(message)
        self.close_code = code
        self.listening = listening


class Transport(Protocol):
    """The seam. One task receives, one sends."""

    @property
    def peer(self) -> str:
        """Who is at the other end, for the census."""

    async def receive(self) -> str | bytes:
        """The next message.

        Raises:
            TransportClosed: there is none any more.
        """

    async def send(self, frame: bytes) -> None:
        """Send one message (UTF-8 JSON); waits while the other side is slow.

        Raises:
            TransportClosed: it cannot be sent.
        """

    def send_nowait(self, frame: bytes, *, at_once: bool = False) -> bool:
        """Send one message if that is possible without waiting; False where it is not.

        Args:
            frame: UTF-8 JSON.
            at_once: do not hold it for what else this turn of the loop may bring.

        Never raises: whoever has to know that the other side is gone uses `send`.
        """

    def abort(self) -> None:
        """End it at once; what waits to be sent is lost. Idempotent, never waits."""

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        """End it. Idempotent."""
