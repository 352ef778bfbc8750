"""The network side of a gateway: HTTP routes, the upgrade, and uvicorn without its habits.

uvicorn would log the upgrade URL with its query, tick ten times a second and take the signals; all
three are switched off here. Everyone passes `transports/admission` first, on every route alike.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import msgspec
import uvicorn

from tenure.errors import ConfigError, ScopeClosed
from tenure.lifecycle.scope import Scope
from tenure.protocol.messages import FRAME_BYTES_MAX
from tenure.transports.admission import Admission, Knock, Verdict
from tenure.transports.websocket import Receive, Scope as AsgiScope, Send, WebSocketTransport
from tenure.transports.websocket_server import SOCKET, SocketProtocol

if TYPE_CHECKING:
    from tenure.rpc.ports import GatewayPorts

log = logging.getLogger("tenure.server")

WS_PATH = "/api/ws"
PING_INTERVAL_S = 30.0
PING_TIMEOUT_S = 30.0
Facts = Callable[[], dict[str, Any]]


class GatewayApp:
    """The ASGI application.

    Args:
        admission: who may pass.
        gateway: resolves to what handlers are given, once the store is open.
        connections: the scope that owns connections.
    """

    def __init__(
        self,
        admission: Admission,
        gateway: Callable[[], Awaitable[GatewayPorts]],
        connections: Scope,
    ) -> None:
        self._admission = admission
        self._gateway = gateway
        self._connections = connections

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve one request or socket."""
        if scope["type"] not in {"http", "websocket"}:
            return
        upgrade = scope["type"] == "websocket"
        verdict = self._admission.judge(knock_of(scope), self._connections.clock.monotonic())
        if upgrade and scope["path"] != WS_PATH:
            verdict = Verdict(404, f"Sockets are served at {WS_PATH}.")
        if not verdict.admitted:
            log.info("Refused %s from %s: %s", scope["type"], _peer(scope), verdict.reason)
            await _refuse(send, verdict, upgrade=upgrade)
        elif upgrade:
            await self._socket(scope, receive, send)
        else:
            await self._http(scope, send)

    async def _socket(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        message = await receive()
        if message["type"] != "websocket.connect":
            return
        try:
            ports = await self._gateway()
            # Loaded with the ports, off the loop: the server itself starts without it.
            from tenure.rpc.connection import Connection

            own = self._connections.child(f"connection:{_peer(scope)}")
        except ScopeClosed:
            await _refuse(send, Verdict(503, "The gateway is ending."), upgrade=True)
            return
        try:
            await send({"type": "websocket.accept"})
            socket = scope["extensions"][SOCKET]
            transport = WebSocketTransport(receive, send, _peer(scope), socket)
            await Connection(transport, ports, own).run()
        finally:  # a client that has left before it was accepted has a scope, too
            await own.close()

    async def _http(self, scope: AsgiScope, send: Send) -> None:
        if scope["path"] == "/healthz":
            await _answer(send, 200, {"status": "ok"})
        else:
            await _answer(send, 404, {"error": f"Nothing is served here; the socket is {WS_PATH}."})


def knock_of(scope: AsgiScope) -> Knock:
    """What a request shows of itself."""
    headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
    scheme, _, credential = headers.get(b"authorization", "").partition(" ")
    query_token = None
    if scope["type"] == "websocket":
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        query_token = query.get("token", [None])[0]
    return Knock(
        peer=(scope.get("client") or ("",))[0],
        host=headers.get(b"host", ""),
        origin=headers.get(b"origin"),
        bearer=credential.strip() if scheme.lower() == "bearer" else None,
        query_token=query_token,
    )


def _peer(scope: AsgiScope) -> str:
    host, port = (scope.get("client") or ("unknown", 0))[:2]
    return f"{host}:{port}"


async def _refuse(send: Send, verdict: Verdict, *, upgrade: bool) -> None:
    if not upgrade:
        await _answer(send, verdict.status, {"error": verdict.reason})
        return
    body = msgspec.json.encode({"error": verdict.reason})
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send(
        {"type": "websocket.http.response.start", "status": verdict.status, "headers": headers}
    )
    await send({"type": "websocket.http.response.body", "body": body})


async def _answer(send: Send, status: int, content: dict[str, Any]) -> None:
    body = msgspec.json.encode(content)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Quiet(uvicorn.Server):
    """uvicorn that neither ticks nor takes signals; it runs until `stop` is set."""

    def __init__(self, config: uvicorn.Config, stop: asyncio.Event) -> None:
        super().__init__(config)
        self._stop = stop

    async def main_loop(self) -> None:
        """Wait for one event instead of waking ten times a second."""
        await self._stop.wait()

    def install_signal_handlers(self) -> None:
        """The gateway's own handlers stand in `app.py`."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; the caller owns it.

    Raises:
        ConfigError: the address is taken or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(512)
    except OSError as exc:
        sock.close()
        if isinstance(exc, socket.gaierror) or exc.errno == errno.EADDRNOTAVAIL:
            raise ConfigError(
                f"{host} is no address of this machine ({exc.strerror}); choose another with "
                "--host."
            ) from None
        raise ConfigError(
            f"Port {port} on {host} cannot be used ({exc.strerror}); choose another with --port, "
            "or 0 for any free one."
        ) from None
    sock.setblocking(False)
    return sock


class Listener:
    """A running server on a bound socket. Owned by the gateway's scope; ends with `aclose`."""

    def __init__(self, app: GatewayApp, sock: socket.socket) -> None:
        self._stop = asyncio.Event()
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            interface="asgi3",
            http="h11",
            ws=SocketProtocol,
            ws_max_size=FRAME_BYTES_MAX,
            ws_ping_interval=PING_INTERVAL_S,
            ws_ping_timeout=PING_TIMEOUT_S,
            ws_per_message_deflate=False,
            date_header=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
        self._server = _Quiet(config, self._stop)
        self._sock = sock
        self._done = asyncio.Event()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, port = self._sock.getsockname()[:2]
        return host, port

    async def serve(self) -> None:
        """Serve until `aclose`. Run it in a task of the owner's scope."""
        try:
            await self._server._serve([self._sock])  # noqa: SLF001 - serve() would take the signals
        finally:
            self._sock.close()
            self._done.set()

    async def aclose(self) -> None:
        """Stop listening and wait for the end. Idempotent."""
        self._stop.set()
        self._server.should_exit = True
        await self._done.wait()
