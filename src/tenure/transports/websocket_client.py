"""The client's end of a WebSocket, on the `websockets` library."""

from __future__ import annotations

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from tenure.errors import TransportError, Unauthorized
from tenure.protocol.messages import FRAME_BYTES_MAX
from tenure.transports.base import TransportClosed

OPEN_TIMEOUT_S = 10.0


class WebSocketClientTransport:
    """A connected socket. The caller owns it."""

    def __init__(self, socket: ClientConnection, peer: str) -> None:
        self._socket = socket
        self._peer = peer

    @property
    def peer(self) -> str:
        """The gateway's address."""
        return self._peer

    async def receive(self) -> str | bytes:
        """The next message; see `Transport.receive`."""
        try:
            return await self._socket.recv()
        except ConnectionClosed as exc:
            code = exc.rcvd.code if exc.rcvd else 1006
            raise TransportClosed("The gateway closed the connection.", code=code) from None

    async def send(self, frame: bytes) -> None:
        """Send one text message; see `Transport.send`."""
        try:
            await self._socket.send(frame, text=True)
        except ConnectionClosed:
            raise TransportClosed("The gateway closed the connection.", code=1006) from None

    def send_nowait(self, frame: bytes, *, at_once: bool = False) -> bool:
        """Never; a client has no need."""
        del frame, at_once
        return False

    def abort(self) -> None:
        """Cut the connection; see `Transport.abort`."""
        self._socket.transport.abort()

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        """Close. Idempotent."""
        await self._socket.close(code, reason)


async def connect_websocket(url: str, token: str) -> WebSocketClientTransport:
    """Connect to a gateway. The token travels in a header, never in the URL.

    Raises:
        Unauthorized: the gateway refused the token.
        TransportError: nobody answers there.
    """
    try:
        socket = await connect(
            url,
            additional_headers={"Authorization": f"Bearer {token}"} if token else None,
            open_timeout=OPEN_TIMEOUT_S,
            max_size=FRAME_BYTES_MAX,
            compression=None,
            proxy=None,
        )
    except InvalidHandshake as exc:
        status = getattr(getattr(exc, "response", None), "status_code", 0)
        if status in {401, 403, 429}:
            raise Unauthorized(f"The gateway at {url} refused the token (HTTP {status}).") from None
        raise TransportError(f"{url} does not answer as a gateway (HTTP {status}).") from None
    except (OSError, InvalidURI, TimeoutError) as exc:
        raise TransportError(f"No gateway answers at {url} ({exc}).") from None
    return WebSocketClientTransport(socket, url)
