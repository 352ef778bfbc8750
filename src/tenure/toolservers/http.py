"""Remote servers: the SDK's streamable HTTP over a client of ours. Brings the SDK."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from tenure.errors import TenureError, ToolError
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import run_in_thread
from tenure.models.http_client import proxy_for
from tenure.net.addresses import AddressRules
from tenure.net.certificates import certificates
from tenure.net.dialing import Dialer
from tenure.toolservers.declared import Declared
from tenure.toolservers.link import Link, begin
from tenure.toolservers.logins import Logins
from tenure.toolservers.oauth import Bearer
from tenure.toolservers.remote import Network
from tenure.toolservers.wire import LINE_BYTES_MAX

CONNECT_S = 10.0
SILENCE_S = 3600.0
"""A call may take long; how long it may is decided by whoever calls."""


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends with an error when it is too long."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = LINE_BYTES_MAX
        async for piece in self._stream:
            left -= len(piece)
            if left < 0:
                raise httpx2.ReadError(f"over {LINE_BYTES_MAX >> 20} MiB in one answer")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class Way(httpx2.AsyncBaseTransport):
    """A way to servers: bodies have a limit; hosts other than the server's own are judged.

    Args:
        inner: what connects.
        url: the server's.
        dialer: judges addresses.
        proxied: somebody else resolves names.
    """

    def __init__(
        self, inner: httpx2.AsyncBaseTransport, url: httpx2.URL, dialer: Dialer, *, proxied: bool
    ) -> None:
        self._inner = inner
        self._own = (url.scheme, url.host, url.port)
        self._dialer = dialer
        self._proxied = proxied

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Judge where it goes, send it, bound what comes."""
        url = request.url
        if (url.scheme, url.host, url.port) != self._own:
            await self._judge(url)
        response = await self._inner.handle_async_request(request)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Bounded(response.stream)
        return response

    async def _judge(self, url: httpx2.URL) -> None:
        """A server's answer names it, not the user: it must be of the public internet."""
        port = url.port or (443 if url.scheme == "https" else 80)
        try:
            if url.scheme not in {"http", "https"}:
                raise ToolError(f"{url.scheme} is not spoken here.")
            if self._proxied:
                self._dialer.check_literal(url.host, port)
            else:
                await self._dialer.addresses(url.host, port)
        except TenureError as exc:
            raise httpx2.ConnectError(exc.message, request=None) from None

    async def aclose(self) -> None:
        """Close what connects."""
        await self._inner.aclose()


async def client_for(
    scope: Scope, server: Declared, network: Network, auth: httpx2.Auth | None
) -> httpx2.AsyncClient:
    """A client; the caller closes it. Raises ConfigError."""
    verify: ssl.SSLContext = await run_in_thread(scope, certificates, network.environ)
    proxy = proxy_for(server.url, network.environ)
    inner = httpx2.AsyncHTTPTransport(verify=verify, trust_env=False, proxy=proxy)
    dialer = Dialer(AddressRules(network.web().allow), scope.clock, network.resolve)
    return httpx2.AsyncClient(
        headers={"user-agent": "tenure", **server.headers},
        auth=auth,
        timeout=httpx2.Timeout(SILENCE_S, connect=CONNECT_S, pool=None),
        transport=Way(inner, httpx2.URL(server.url), dialer, proxied=proxy is not None),
        trust_env=False,
    )


async def open_remote(
    scope: Scope, link: Link, name: str, server: Declared, network: Network
) -> None:
    """Reach a server and shake hands with it. `scope` owns the connection.

    Raises:
        ToolError, ConfigError: see `Network.open`.
    """
    logins = Logins(network.logins, scope.clock)
    bearer = Bearer(server.url, logins, scope.clock, network.know)
    bearer.on_refused = lambda: link.end(f"it wants a login: `tenure mcp login {name}`")
    client = await client_for(scope, server, network, bearer)
    await begin(scope, link, link.keep(_streams(client, server.url)))


@asynccontextmanager
async def _opened(client: httpx2.AsyncClient, url: str) -> AsyncGenerator[tuple[Any, Any]]:
    async with (
        client,
        streamable_http_client(url, http_client=client, max_sse_event_size=LINE_BYTES_MAX) as (
            read,
            write,
        ),
    ):
        yield read, write


def _streams(client: httpx2.AsyncClient, url: str) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    return _opened(client, url)
