"""One HTTP exchange within limits: of addresses, redirects, bytes and compression.

Import it off the loop (`lifecycle.imports`): httpcore takes 60 ms. Time is the caller's to limit,
with a deadline around the whole: however slowly a server drips, it drips against that.
"""

from __future__ import annotations

import ssl
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import httpcore

from tenure.errors import TenureError, ToolError
from tenure.lifecycle.scope import Scope
from tenure.net.dialing import Dialer
from tenure.net.urls import Url

SILENCE_S = 30.0
USER_AGENT = "tenure"
_DROPPED_BYTES_MAX = 64 * 1024
"""Of an answer whose body nobody wants."""


class Limits(NamedTuple):
    """What one exchange may take.

    Attributes:
        body_bytes_max: of the body, after decompression; what comes after that is not read.
    """

    body_bytes_max: int


class Answer(NamedTuple):
    """What a server said.

    Attributes:
        url: that was asked.
        status: the HTTP status.
        headers: by lower-case name; of several the first.
        body: decompressed; at most as long as allowed.
        cut: whether there was more.
    """

    url: Url
    status: int
    headers: Mapping[str, str]
    body: bytes
    cut: bool

    @property
    def media_type(self) -> str:
        """Such as "text/html", without parameters; "" where the server does not say."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class _OwnedBackend(httpcore.AsyncNetworkBackend):
    """Opens connections that a scope owns. Host and SNI stay those of the URL.

    Args:
        scope: closes each connection, also one whose TLS handshake was cut off, which the library
            would leave to the garbage collector.
        dialer: resolves and judges; None: connect to whatever is asked for (a proxy).
    """

    def __init__(self, scope: Scope, dialer: Dialer | None) -> None:
        self._scope = scope
        self._dialer = dialer
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve, judge, connect, own."""

        async def connect(address: str) -> httpcore.AsyncNetworkStream:
            try:
                return await self._inner.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as exc:
                raise OSError(0, _words(exc)) from None

        dialer = self._dialer
        stream = await (dialer.dial(host, port, connect) if dialer else connect(host))
        self._scope.own("socket", stream, lambda held: held.aclose(), label=f"{host}:{port}")
        return stream

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Never."""
        raise OSError(0, f"{path} is no address of the network")

    async def sleep(self, seconds: float) -> None:
        """Between retries, of which there are none."""
        await self._inner.sleep(seconds)


def open_pool(
    scope: Scope, dialer: Dialer, verify: ssl.SSLContext, proxy: str = ""
) -> httpcore.AsyncConnectionPool:
    """Connections for the requests of one call; owned by `scope`.

    Args:
        scope: closes them.
        dialer: what may be reached.
        verify: the certificates to check servers against.
        proxy: the URL of an HTTP proxy, or "". It resolves names by itself, so what a name leads to
            is its business then; the proxy's own address is not judged.
    """
    kept: dict[str, Any] = {"ssl_context": verify, "max_connections": 4, "retries": 0}
    pool: httpcore.AsyncConnectionPool
    if proxy:
        pool = httpcore.AsyncHTTPProxy(proxy, network_backend=_OwnedBackend(scope, None), **kept)
    else:
        pool = httpcore.AsyncConnectionPool(network_backend=_OwnedBackend(scope, dialer), **kept)
    return scope.own("http client", pool, lambda held: held.aclose()).value


async def exchange(
    pool: httpcore.AsyncConnectionPool,
    url: Url,
    limits: Limits,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    content: bytes = b"",
) -> Answer:
    """Send one request and read its answer within `limits`. Follows nothing. Cancellable.

    Raises:
        AddressRefused: the host leads where nothing is reached.
        ToolError: no answer, or a broken one; one sentence.
    """
    sent: dict[str, str] = {
        "host": url.netloc,
        "user-agent": USER_AGENT,
        "accept-encoding": "gzip, deflate",
        **(headers or {}),
    }
    if content:
        sent["content-length"] = str(len(content))
    timeout = {"connect": None, "read": SILENCE_S, "write": SILENCE_S, "pool": SILENCE_S}
    try:
        async with pool.stream(
            method,
            str(url),
            headers=list(sent.items()),
            content=content or None,
            extensions={"timeout": timeout},
        ) as response:
            return await _read(url, response, limits)
    except TenureError:
        raise
    except httpcore.TimeoutException:
        raise ToolError(f"{url.host} has said nothing for {SILENCE_S:.0f} s.") from None
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError) as exc:
        raise ToolError(f"{url.host} gave no usable answer: {_words(exc)}.") from None
    except OSError as exc:  # of the proxy's address, or of TLS
        raise ToolError(f"{url.host} cannot be reached: {_words(exc)}.") from None


async def _read(url: Url, response: httpcore.Response, limits: Limits) -> Answer:
    headers: dict[str, str] = {}
    for name, value in response.headers:
        headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    room = limits.body_bytes_max
    if 300 <= response.status < 400 or not is_text(headers.get("content-type", "")):
        room = min(room, _DROPPED_BYTES_MAX)
    body, cut = bytearray(), False
    inflate = _inflater(headers.get("content-encoding", ""), url)
    async for piece in response.aiter_stream():
        body += inflate(piece, room + 1 - len(body))
        if len(body) > room:
            del body[room:]
            cut = True
            break
    return Answer(url, response.status, headers, bytes(body), cut)


def is_text(content_type: str) -> bool:
    """Whether a body of this type can be shown as text; one of no type may be."""
    kind = content_type.partition(";")[0].strip().lower()
    if not kind or kind.startswith("text/") or kind.endswith(("+json", "+xml")):
        return True
    return kind in {
        "application/json", "application/xml", "application/javascript", "application/x-ndjson",
        "application/ld+json", "application/yaml", "application/x-yaml", "application/toml",
        "application/x-sh", "application/sql",
    }  # fmt: skip


class _Inflate:
    """Decompression of which no more comes out than is asked for, whatever was put in."""

    def __init__(self, url: Url, wbits: int) -> None:
        self._url = url
        self._wbits = wbits
        self._inner = zlib.decompressobj(wbits)
        self._begun = False

    def __call__(self, piece: bytes, wanted: int) -> bytes:
        if wanted <= 0:
            return b""
        try:
            out = self._inner.decompress(piece, wanted)
        except zlib.error:
            if self._wbits > 0 and not self._begun and self._wbits < 16:
                self._wbits = -zlib.MAX_WBITS  # "deflate" without its header: many servers
                self._inner = zlib.decompressobj(self._wbits)
                return self(piece, wanted)
            raise ToolError(f"What {self._url.host} sent cannot be decompressed.") from None
        self._begun = self._begun or bool(piece)
        return out


def _inflater(encoding: str, url: Url) -> Any:
    name = encoding.strip().lower()
    if name in {"gzip", "x-gzip"}:
        return _Inflate(url, zlib.MAX_WBITS | 16)
    if name == "deflate":
        return _Inflate(url, zlib.MAX_WBITS)
    if name in {"", "identity"}:
        return lambda piece, wanted: piece[: max(0, wanted)]
    raise ToolError(f"{url.host} answers in the encoding {name[:40]!r}, which was not asked for.")


def _words(exc: BaseException) -> str:
    text = str(exc).strip().rstrip(".")
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return f"its certificate is not valid ({text.rpartition(': ')[2].partition(' (_ssl')[0]})"
    if "All connection attempts failed" in text or "Connection refused" in text:
        return "connection refused"
    return text or "the connection broke"
