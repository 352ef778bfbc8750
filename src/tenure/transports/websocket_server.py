"""uvicorn's WebSocket protocol with two doors more: send at once if that is possible, and abort.

ASGI has neither: its `send` may wait, so each small event costs a task's turn, and a peer that does
not read cannot be told to go. Framing, limits and pings stay the library's.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import OPEN

SOCKET = "tenure.socket"
"""The key under which the ASGI scope's extensions hold the protocol."""

HELD_BYTES = 64 * 1024
"""More than this does not wait for the end of the loop's turn."""


class SocketProtocol(WebSocketsSansIOProtocol):
    """One socket. Made by the server."""

    scope: Any
    _corked = False
    """A message was written in this turn of the loop."""
    _held = 0
    """Bytes of those that are not written."""

    async def run_asgi(self) -> None:
        """Run the application, which finds this protocol in its scope."""
        self.scope["extensions"][SOCKET] = self
        await super().run_asgi()

    def send_nowait(self, frame: bytes, *, at_once: bool = False) -> bool:
        """Send a text message, if the socket takes it without waiting.

        The first one in a turn of the loop is written at once, those that follow it are written
        together after it: each write is a system call.

        Args:
            frame: UTF-8 text.
            at_once: write it, with what waits, whatever else the turn has to do.
        """
        if (
            not self.writable.is_set()
            or not self.handshake_complete
            or self.close_sent
            or self.disconnected
            or self.conn.state is not OPEN  # the peer has said goodbye, and nobody has heard it yet
        ):
            return False
        self.conn.send_text(frame)
        self._held += len(frame)
        if not self._corked:
            self._corked = at_once = True
            self.loop.call_soon(self._uncork)
        if at_once or self._held > HELD_BYTES:
            self._flush()
        return True

    def _uncork(self) -> None:
        self._corked = False
        if self._held and not self.disconnected:
            self._flush()

    def _flush(self) -> None:
        """Write what waits in the framing, which whatever else is written takes along in order."""
        self._held = 0
        if data := b"".join(self.conn.data_to_send()):
            self.transport.write(data)

    def abort(self) -> None:
        """Cut the connection; what waits to be sent is dropped."""
        self.transport.abort()
