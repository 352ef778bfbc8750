"""What stands between the browser and the network: a proxy of ours for each session.

Chromium resolves no names and opens no connections but to this proxy, also for loopback, redirects,
WebSockets and whatever a script thinks of. The proxy resolves once, judges every address, and
connects to a judged one; so rebinding a name changes nothing. One plain HTTP request is served on a
connection, since the next one may be for another host.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from tenure.errors import TenureError, ToolError
from tenure.ids import whole_number
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.scope import Scope
from tenure.net.dialing import Dialer
from tenure.net.urls import Url, parse_url

HEAD_BYTES_MAX = 64 * 1024
HEAD_S = 30.0
HANG_UP_S = 5.0
"""How long the last bytes may take to be read."""
CONNECTIONS_MAX = 256
"""At one time, of one session; one more is closed at once."""
PIECE_BYTES = 64 * 1024
REFUSALS_MAX = 100
"""Hosts whose refusal is remembered."""
_DROPPED = frozenset({"connection", "proxy-connection", "keep-alive", "proxy-authorization", "te"})

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Head(NamedTuple):
    """The head of a request or of an answer."""

    first: str
    headers: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str:
        """The first header of that name; "" if there is none."""
        return next((value for key, value in self.headers if key.lower() == name), "")

    def closing(self, first: str) -> bytes:
        """The same with another first line, and such that the connection ends after it."""
        kept = [f"{key}: {value}" for key, value in self.headers if key.lower() not in _DROPPED]
        lines = [first, *kept, "Connection: close", "", ""]
        return "\r\n".join(lines).encode("latin-1")


class Proxy:
    """A proxy on loopback. Made by `open_proxy`, owned by its scope.

    Attributes:
        port: where it listens.
        refusals: why hosts were not reached, by ``host:port``, the latest last.
        received: bytes from the network so far.
    """

    def __init__(self, scope: Scope, dialer: Dialer, upstream: Url | None, bytes_max: int) -> None:
        self.port = 0
        self.refusals: dict[str, str] = {}
        self.received = 0
        self._scope = scope
        self._dialer = dialer
        self._upstream = upstream
        self._bytes_max = bytes_max
        self._open = 0

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a new connection, as a task of the scope. For `open_proxy`."""
        if self._open >= CONNECTIONS_MAX or not self._scope.admits:
            writer.transport.abort()
            return
        self._open += 1
        self._scope.spawn(self._serve(reader, writer), name="proxied connection")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with deadline(self._dialer.clock, HEAD_S):
                head = await _read_head(reader)
            method, target, _ = head.first.split(" ", 2)
            if method == "CONNECT":
                await self._tunnel(target, reader, writer)
            else:
                await self._forward(head, method, target, (reader, writer))
            writer.close()
            async with deadline(self._dialer.clock, HANG_UP_S):
                await writer.wait_closed()
        except (OSError, ValueError, asyncio.IncompleteReadError, TimeoutError):
            return  # the browser has hung up, or what it sent is no request
        finally:
            self._open -= 1
            writer.transport.abort()

    async def _tunnel(
        self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        host, _, port = target.rpartition(":")
        there = await self._reach(host.strip("[]"), int(port), writer)
        if there is None:
            return
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await self._join((reader, writer), there, f"{host.strip('[]')}:{port}")

    async def _forward(self, head: _Head, method: str, target: str, here: Streams) -> None:
        """One request in plain HTTP, and its answer."""
        reader, writer = here
        try:
            url = parse_url(target)
        except ToolError as exc:
            await _refuse(writer, 400, exc.message)
            return
        length = whole_number(head.get("content-length") or "0")
        if url.scheme != "http" or head.get("transfer-encoding") or length is None:
            await _refuse(writer, 501, "That kind of request is not passed on.")
            return
        there = await self._reach(url.host, url.port, writer)
        if there is None:
            return
        there[1].write(head.closing(f"{method} {url.target} HTTP/1.1"))
        sending = _send_body(reader, there[1], length)
        try:
            await _until_one_ends(self._scope, sending, self._answer(there[0], writer, _where(url)))
        finally:
            there[1].transport.abort()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, where: str
    ) -> None:
        """Pass an answer on, without those that only say that another will follow."""
        with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError):
            answer = await _read_head(reader)
            while answer.first.split(" ")[1:2] in (["100"], ["102"], ["103"]):
                answer = await _read_head(reader)
            writer.write(answer.closing(answer.first))
            await self._pump(reader, writer, where)

    async def _reach(self, host: str, port: int, writer: asyncio.StreamWriter) -> Streams | None:
        """A connection to `host`; None if it was refused, which is answered and remembered."""
        try:
            return await self._connect(host, port)
        except TenureError as exc:
            self._remember(f"{host}:{port}", exc.message)
            await _refuse(writer, 403, exc.message)
            return None

    async def _connect(self, host: str, port: int) -> Streams:
        up = self._upstream
        if up is None:
            return await self._dialer.dial(host, port, lambda ip: _open(ip, port))
        self._dialer.check_literal(host, port)
        try:
            streams = await _open(up.host, up.port)
        except OSError:
            raise ToolError(f"The proxy {up.netloc} cannot be reached.") from None
        named = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        streams[1].write(f"CONNECT {named} HTTP/1.1\r\nHost: {named}\r\n\r\n".encode("ascii"))
        try:
            answer = await _read_head(streams[0])
        except (OSError, ValueError, asyncio.IncompleteReadError):
            answer = _Head("", ())
        if answer.first.split(" ")[1:2] != ["200"]:
            streams[1].transport.abort()
            raise ToolError(f"The proxy {up.netloc} does not connect to {host}.")
        return streams

    async def _join(self, here: Streams, there: Streams, where: str) -> None:
        """Pass bytes both ways until one side has ended."""
        up = _copy(here[0], there[1], lambda _: True)
        try:
            await _until_one_ends(self._scope, up, self._pump(there[0], here[1], where))
        finally:
            there[1].transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, where: str
    ) -> None:
        """From the network to the browser, up to the limit of one connection."""
        received = 0

        def may(size: int) -> bool:
            nonlocal received
            received += size
            self.received += size
            if received <= self._bytes_max:
                return True
            limit = self._bytes_max // (1024 * 1024)
            self._remember(where, f"{where} sent more than {limit} MB at once and was cut off.")
            return False

        await _copy(reader, writer, may)

    def _remember(self, where: str, why: str) -> None:
        self.refusals.pop(where, None)
        self.refusals[where] = why
        if len(self.refusals) > REFUSALS_MAX:
            del self.refusals[next(iter(self.refusals))]


def _where(url: Url) -> str:
    return f"{url.host}:{url.port}"


async def open_proxy(
    scope: Scope, dialer: Dialer, *, upstream: str = "", bytes_max: int = 256 * 1024 * 1024
) -> Proxy:
    """Listen on a free port of loopback; `scope` ends it with all its connections.

    Args:
        scope: owns it.
        dialer: what may be reached.
        upstream: the URL of a proxy to go through, or "".
        bytes_max: of one connection, from the network.
    """
    proxy = Proxy(scope, dialer, parse_url(upstream) if upstream else None, bytes_max)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0, limit=HEAD_BYTES_MAX)
    scope.own("listener", server, lambda held: held.close())
    proxy.port = server.sockets[0].getsockname()[1]
    return proxy


async def _open(address: str, port: int) -> Streams:
    return await asyncio.open_connection(address, port, limit=HEAD_BYTES_MAX)


async def _read_head(reader: asyncio.StreamReader) -> _Head:
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise ValueError("too large a head") from None
    first, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return _Head(first, tuple((name.strip(), value.strip()) for name, _, value in pairs))


async def _send_body(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int
) -> None:
    """The body of a request; then wait for the browser to hang up, or to want another request."""
    while length > 0:
        piece = await reader.read(min(length, PIECE_BYTES))
        if not piece:
            break
        length -= len(piece)
        writer.write(piece)
        await writer.drain()
    await reader.read(1)


async def _copy(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, may: Callable[[int], bool]
) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE_BYTES):
            if not may(len(piece)):
                return
            writer.write(piece)
            await writer.drain()


async def _until_one_ends(
    scope: Scope, one: Coroutine[Any, Any, None], other: Coroutine[Any, Any, None]
) -> None:
    """Run both side by side; when one has ended, the other is ended."""
    leases = [scope.spawn(one, name="up"), scope.spawn(other, name="down")]
    try:
        await asyncio.wait([lease.value for lease in leases], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for lease in leases:
            lease.release_nowait()


async def _refuse(writer: asyncio.StreamWriter, status: int, sentence: str) -> None:
    text = re.sub(r"[^\x20-\x7e]", "?", sentence).encode("ascii")
    head = (
        f"HTTP/1.1 {status} Refused\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
        "Connection: close\r\n\r\n"
    )
    writer.write(head.encode("ascii") + text)
    with contextlib.suppress(OSError):
        await writer.drain()
