"""An HTTP client for one endpoint, and what its failures mean.

Nothing here reads the process environment: proxies and certificates come from the mapping that the
caller was given. Building the certificate store takes about 25 ms, so it is done in a thread.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tenure.clock import Clock
from tenure.errors import ConfigError, ModelError
from tenure.lifecycle.threads import run_in_thread
from tenure.models import failures
from tenure.net.certificates import certificates

if TYPE_CHECKING:
    import httpx

    from tenure.lifecycle.scope import Scope

CONNECT_S = 10.0
SILENCE_S = 600.0
"""A server may read a long prompt this long before it says its first word."""
WRITE_S = 60.0
KEPT_CONNECTIONS_MAX = 20
KEPT_S = 60.0
"""How long a connection is kept unused; as often one that the server has ended is looked for."""
ERROR_BYTES_MAX = 64 * 1024
"""Bytes of an error body that are read."""

_LOCAL = ("localhost", "127.", "::1", "[::1]")


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """The proxy for `url` after the usual variables, or None.

    ``HTTPS_PROXY``/``HTTP_PROXY`` by scheme, else ``ALL_PROXY``, in either case; ``NO_PROXY`` is a
    list of host suffixes or ``*``. Loopback is never proxied.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host.startswith(_LOCAL):
        return None
    names = (f"{parts.scheme}_proxy", "all_proxy")
    found = [environ.get(n) or environ.get(n.upper()) for n in names]
    proxy = next((p for p in found if p), None)
    exempt = (environ.get("no_proxy") or environ.get("NO_PROXY") or "").split(",")
    for entry in (e.strip().lstrip(".") for e in exempt):
        if entry == "*" or (entry and (host == entry or host.endswith(f".{entry}"))):
            return None
    return proxy


async def open_client(
    base_url: str,
    headers: Mapping[str, str],
    *,
    scope: Scope,
    module: ModuleType,
    environ: Mapping[str, str],
) -> httpx.AsyncClient:
    """A client for `base_url`; the caller owns it and ends it with `aclose`.

    Args:
        base_url: absolute, http or https.
        headers: sent with every request.
        scope: owns the thread that loads the certificates; nothing stays in it.
        module: httpx, imported off the loop.
        environ: for proxy and certificate variables (``SSL_CERT_FILE``, ``SSL_CERT_DIR``).

    Raises:
        ConfigError: the URL, a proxy or a certificate file cannot be used.
    """
    parts = urlsplit(base_url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"{base_url!r} is no base URL; it looks like https://host/v1.")
    verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # empty: an http URL needs no certificates
    if parts.scheme == "https":
        verify = await run_in_thread(scope, certificates, environ)
    try:
        client: httpx.AsyncClient = module.AsyncClient(
            base_url=base_url,
            headers={"accept-encoding": "identity", "user-agent": "tenure", **headers},
            timeout=module.Timeout(SILENCE_S, connect=CONNECT_S, write=WRITE_S, pool=None),
            limits=module.Limits(
                max_connections=None,
                max_keepalive_connections=KEPT_CONNECTIONS_MAX,
                keepalive_expiry=KEPT_S,
            ),
            verify=verify,
            trust_env=False,
            proxy=proxy_for(base_url, environ),
        )
    except (module.InvalidURL, ImportError, ValueError) as exc:
        raise ConfigError(f"No HTTP client can be made for {base_url!r}: {exc}.") from None
    client.event_hooks = {"request": [_Kept(client, scope).used]}
    return client


class _Kept:
    """Looks after the connections that a client keeps, as long as it keeps any.

    httpx closes what has expired, or what the server has ended, with its next request only. That
    may never come, and until then each of them is a socket that nobody needs.

    Args:
        client: whose connections.
        scope: outlasts the client; what is closed is closed in it.
    """

    def __init__(self, client: httpx.AsyncClient, scope: Scope) -> None:
        self._client = client
        self._scope = scope
        self._looks = False

    async def used(self, _request: object) -> None:
        """A request is about to be sent."""
        self._look_later()

    def _look_later(self) -> None:
        if not self._looks:
            self._looks = True
            self._scope.clock.call_later(KEPT_S, self._look)

    def _look(self) -> None:
        self._looks = False
        if self._scope.admits and not self._client.is_closed:
            self._scope.spawn(self._close(), name="kept connections")

    async def _close(self) -> None:
        ways = (self._client._transport, *self._client._mounts.values())  # noqa: SLF001 - no other way
        pools = [way._pool for way in ways if way is not None and hasattr(way, "_pool")]  # noqa: SLF001
        for connection in [one for pool in pools for one in pool.connections]:
            if connection.is_idle() and connection.has_expired():
                await connection.aclose()
            elif not connection.is_closed():
                self._look_later()


@contextmanager
def translated(origin: failures.Origin, module: ModuleType) -> Iterator[None]:
    """Httpx's failures as ours: no answer at all, or a broken one.

    Raises:
        ModelOverloaded: no connection, no answer in time.
        ModelGarbage: the answer breaks HTTP.
    """
    try:
        yield
    except module.ConnectTimeout:
        raise failures.unreachable(origin, f"no connection within {CONNECT_S:.0f} s") from None
    except module.TimeoutException:
        raise failures.unreachable(origin, f"no word within {SILENCE_S:.0f} s") from None
    except (module.ConnectError, module.ProxyError) as exc:
        raise failures.unreachable(origin, _why(exc)) from None
    except module.RemoteProtocolError as exc:
        if "without sending" in str(exc):
            raise failures.unreachable(origin, "it hung up without an answer") from None
        raise failures.garbage(origin, "it is not HTTP, or it broke off before its end") from None
    except module.DecodingError:
        raise failures.garbage(origin, "its compression is broken") from None
    except module.TransportError as exc:
        raise failures.unreachable(origin, _why(exc)) from None


async def refusal(
    response: httpx.Response, origin: failures.Origin, model: str, clock: Clock
) -> ModelError:
    """The error that a response with another status than 200 means. Reads a bounded body."""
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece[: ERROR_BYTES_MAX - len(body)]
        if len(body) >= ERROR_BYTES_MAX:
            break
    return failures.from_status(
        origin,
        response.status_code,
        failures.words_of(bytes(body), origin.secrets),
        retry_after_s=retry_after(response.headers.get("retry-after", ""), clock.wall()),
        model=model,
    )


def retry_after(value: str, now_wall_s: float) -> float | None:
    """Seconds that a ``Retry-After`` header asks for (a number or a date), or None."""
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(value).timestamp() - now_wall_s, 0.0)
    except ValueError:
        return None


def _why(exc: Exception) -> str:
    """A short clause; httpx leaves some texts empty and prefixes others."""
    text = str(exc)
    if "Connection refused" in text or "All connection attempts failed" in text:
        return "connection refused"
    if "Name or service not known" in text or "name resolution" in text:
        return "its name is not known here (no network?)"
    return text or "the connection broke"
