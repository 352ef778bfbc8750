"""A WebSocket as a transport, on the raw ASGI interface (Starlette's class costs twice as much)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

from tenure.transports.base import TransportClosed

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Socket(Protocol):
    """What the server's socket can do beside ASGI; see `websocket_server`."""

    def send_nowait(self, frame: bytes, *, at_once: bool = False) -> bool:
        """Send, if that is possible without waiting."""

    def abort(self) -> None:
        """Cut the connection."""


class WebSocketTransport:
    """One accepted WebSocket. The server closes the socket after the application returns."""

    def __init__(self, receive: Receive, send: Send, peer: str, socket: Socket) -> None:
        self._receive = receive
        self._send = send
        self._peer = peer
        self._socket = socket
        self._closed = False

    @property
    def peer(self) -> str:
        """Address of the other end."""
        return self._peer

    async def receive(self) -> str | bytes:
        """The next message; see `Transport.receive`."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            self._closed = True
            raise TransportClosed(code=int(message.get("code") or 1005))
        text = message.get("text")
        return text if text is not None else bytes(message.get("bytes") or b"")

    async def send(self, frame: bytes) -> None:
        """Send one text message; see `Transport.send`."""
        if self._closed:
            raise TransportClosed
        try:
            await self._send({"type": "websocket.send", "text": frame.decode()})
        except (OSError, RuntimeError) as exc:
            # The server raises either when the socket has gone away under the send.
            self._closed = True
            raise TransportClosed(code=1006) from exc

    def send_nowait(self, frame: bytes, *, at_once: bool = False) -> bool:
        """Send one text message at once, or not at all; see `Transport.send_nowait`."""
        return not self._closed and self._socket.send_nowait(frame, at_once=at_once)

    def abort(self) -> None:
        """Cut the connection; see `Transport.abort`."""
        self._closed = True
        self._socket.abort()

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        """Send a close frame. Idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._send({"type": "websocket.close", "code": code, "reason": reason[:120]})
        except (OSError, RuntimeError):
            return
