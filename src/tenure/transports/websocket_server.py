"""uvicorn's WebSocket protocol with two doors more: send at once if that is possible, and abort.

ASGI has neither: its `send` may wait, so each small event costs a task's turn, and a peer that does
not read cannot be told to go. Framing, limits and pings stay the library's.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

SOCKET = "tenure.socket"
"""The key under which the ASGI scope's extensions hold the protocol."""


class SocketProtocol(WebSocketsSansIOProtocol):
    """One socket. Made by the server."""

    scope: Any

    async def run_asgi(self) -> None:
        """Run the application, which finds this protocol in its scope."""
        self.scope["extensions"][SOCKET] = self
        await super().run_asgi()

    def send_nowait(self, frame: bytes) -> bool:
        """Send a text message, if the socket takes it without waiting.

        Args:
            frame: UTF-8 text.
        """
        if (
            not self.writable.is_set()
            or not self.handshake_complete
            or self.close_sent
            or self.disconnected
        ):
            return False
        self.conn.send_text(frame)
        self.transport.write(b"".join(self.conn.data_to_send()))
        return True

    def abort(self) -> None:
        """Cut the connection; what waits to be sent is dropped."""
        self.transport.abort()
