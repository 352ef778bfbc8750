"""Any OpenAI-compatible endpoint: OpenAI, OpenRouter, Ollama, vLLM, LM Studio, llama.cpp, ours.

The way of an answer: `httpx` bytes -> `sse.SseReader` -> `chat_wire.ChunkReader` -> events. This is
the path that most sessions take, so it is our own and short. The `OpenAIProvider` owns the HTTP
client; models borrow it and own nothing; leaving a stream's context closes its connection, which is
how the server learns of an interrupt.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from tenure.clock import Clock
from tenure.errors import BadValue, ModelError
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.imports import import_off_loop
from tenure.lifecycle.threads import call_in_thread
from tenure.models import chat_wire, failures, windows
from tenure.models.base import BLIND, ModelEvent, ModelInfo, ModelRequest, Sight
from tenure.models.chat_wire import ChunkReader
from tenure.models.http_client import open_client, refusal, translated
from tenure.models.retry import RetryPolicy, retried
from tenure.models.sight import sees

if TYPE_CHECKING:
    import httpx

    from tenure.lifecycle.scope import Scope

DRAIN_S = 0.25
"""How long the end of the body is waited for after the last event."""
BODY_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of a whole (not streamed) answer or model list."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a provider lives and how to enter.

    Attributes:
        provider: the part before the colon of a reference.
        base_url: up to and including ``/v1``.
        key: the API key, or "" for servers without one. Never in a message or a `repr`.
        key_env: the variable it came from, for messages.
        headers: further headers.
        context_tokens: overrides what is known of the model; 0 means do not.
        default_model: for a reference without a name; "" means: ask the server.
    """

    provider: str
    base_url: str
    key: str = field(default="", repr=False)
    key_env: str = ""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    context_tokens: int = 0
    default_model: str = ""

    @property
    def origin(self) -> failures.Origin:
        """For messages."""
        url = urlsplit(self.base_url)
        place = f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"
        return failures.Origin(self.provider, place, self.key_env, (self.key,))


class _Listed(msgspec.Struct):
    """One entry of ``GET /models``; servers tell the window under different names."""

    id: str
    context_length: int | None = None
    max_model_len: int | None = None
    name: str | None = None


class _Listing(msgspec.Struct):
    data: list[_Listed] | None = None


class OpenAIProvider:
    """Owns the HTTP client of one endpoint. Built by `open_provider`.

    Attributes:
        windows: context windows that the server told, by model.
        blind: models that have refused an image.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        client: httpx.AsyncClient,
        httpx_module: ModuleType,
        clock: Clock,
        retry: RetryPolicy | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.client = client
        self.httpx = httpx_module
        self.clock = clock
        self.retry = retry or RetryPolicy()
        self.windows: dict[str, int] = {}
        self.blind: set[str] = set()
        self._first_listed = ""

    @property
    def name(self) -> str:
        """The provider's name."""
        return self.endpoint.provider

    def model(self, name: str) -> OpenAIModel:
        """The model of that name; an empty name means the default, or the server's first.

        Raises:
            BadValue: the name has blanks or control characters.
        """
        if any(c.isspace() or not c.isprintable() for c in name):
            raise BadValue(f"{name[:60]!r} cannot be the name of a model of {self.name}.")
        return OpenAIModel(self, name or self.endpoint.default_model)

    async def list_models(self) -> list[ModelInfo]:
        """``GET /models``, in the server's order.

        Raises:
            ModelError: it cannot be reached, refuses the key, or does not answer with a list.
        """
        origin = self.endpoint.origin
        with translated(origin, self.httpx):
            async with self.client.stream("GET", "models") as response:
                if response.status_code != 200:
                    raise await refusal(response, origin, "", self.clock)
                body = await _whole(response, origin)
        try:
            listed = msgspec.json.decode(body, type=_Listing).data or []
        except msgspec.MsgspecError:
            raise failures.garbage(origin, "the model list is not JSON") from None
        for entry in listed:
            told = entry.context_length or entry.max_model_len
            if told:
                self.windows[entry.id] = told
        return [ModelInfo(e.id, self.window(e.id), e.name or "") for e in listed]

    async def first_model(self) -> str:
        """The model to use where none was named: the first of the server's list, asked once.

        Raises:
            ModelError: there is none, or the list cannot be had.
        """
        if not self._first_listed:
            models = await self.list_models()
            if not models:
                raise ModelError(
                    f"{self.endpoint.origin.named} offers no model; load one there, or name one "
                    f"({self.name}:NAME).",
                    provider=self.name,
                )
            self._first_listed = models[0].name
        return self._first_listed

    def window(self, model: str) -> int:
        """Context tokens of `model`: configured, told by the server, known, or safe."""
        told = self.endpoint.context_tokens or self.windows.get(model, 0)
        return told or windows.context_tokens(model)

    def sight(self, model: str) -> Sight:
        """What `model` takes: as the server has shown, as known by name, else it is tried."""
        if model in self.blind:
            return BLIND
        pdfs = self.name == "openrouter" or self.is_own
        images = sees(model)
        return Sight(images, pdfs=pdfs and images is True)

    @property
    def is_own(self) -> bool:
        """Whether this is OpenAI itself."""
        return urlsplit(self.endpoint.base_url).hostname == "api.openai.com"

    async def aclose(self) -> None:
        """Close the client and every connection. Idempotent."""
        await self.client.aclose()


class OpenAIModel:
    """One model behind an `OpenAIProvider`. Owns nothing."""

    __slots__ = ("_name", "_provider")

    def __init__(self, provider: OpenAIProvider, name: str) -> None:
        self._provider = provider
        self._name = name

    @property
    def ref(self) -> str:
        """``provider:name``; without a name until the server was asked."""
        return f"{self._provider.name}:{self._name}"

    @property
    def context_tokens(self) -> int:
        """The window; see `OpenAIProvider.window`."""
        return self._provider.window(self._name)

    @property
    def small(self) -> bool:
        """No: such servers take ordinary prompts."""
        return False

    @property
    def sight(self) -> Sight:
        """As known by name, or as the server has said; see `OpenAIProvider.sight`."""
        return self._provider.sight(self._name)

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Open one call; tried again while nothing was said (see `retry`)."""
        provider = self._provider
        return retried(lambda: self._attempt(request), provider.clock, provider.retry)

    @asynccontextmanager
    async def _attempt(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        self._name = self._name or await self._provider.first_model()
        own = self._provider.is_own
        build = partial(
            chat_wire.request_body, self._name, request, completion_tokens=own, cache_key=own
        )
        # Images take up to a tenth of a second; whoever else is on the loop goes on meanwhile.
        body = await call_in_thread(build) if request.media else build()
        try:
            async with aclosing(chat(self._provider, body, self._name)) as events:
                yield events
        except ModelError as exc:
            if not request.media or not failures.blames_images(exc):
                raise
            self._provider.blind.add(self._name)
            raise failures.blind(self.ref, exc) from None


async def chat(
    provider: OpenAIProvider,
    body: bytes,
    model: str,
    reader: ChunkReader | None = None,
) -> AsyncGenerator[ModelEvent, None]:
    """Post `body` and stream the answer. Closing the generator closes the connection.

    Args:
        provider: whose client is used.
        body: the JSON request.
        model: for messages.
        reader: folds the answer; given by callers that want to look into it.

    Raises:
        ModelError: whatever failed, in one sentence.
    """
    origin = provider.endpoint.origin
    with translated(origin, provider.httpx):
        async with aclosing(await _sent(provider, body)) as response:
            if response.status_code != 200:
                raise await refusal(response, origin, model, provider.clock)
            kind = response.headers.get("content-type", "")
            if kind.startswith("application/json"):
                for event in chat_wire.whole_answer(await _whole(response, origin), origin):
                    yield event
                return
            if kind.startswith("text/html"):
                raise failures.garbage(origin, "it is a web page")
            reader = reader or ChunkReader(origin)
            async with aclosing(
                _streamed(response, reader, provider.httpx, provider.clock)
            ) as events:
                async for event in events:
                    yield event


async def _sent(provider: OpenAIProvider, body: bytes) -> httpx.Response:
    """Post `body`; the response's beginning. The caller closes it.

    A server may close a kept connection at the moment at which it is used again (llama.cpp does so
    after each stream). It has not begun to answer then, so the request is sent once more, at once.
    """
    module = provider.httpx
    request = provider.client.build_request("POST", "chat/completions", content=body)
    try:
        return await provider.client.send(request, stream=True)
    except (module.RemoteProtocolError, module.ReadError, module.WriteError):
        return await provider.client.send(request, stream=True)


async def _streamed(
    response: httpx.Response, reader: ChunkReader, module: ModuleType, clock: Clock
) -> AsyncGenerator[ModelEvent, None]:
    """The events of a streamed answer, to the last one."""
    plain = "content-encoding" not in response.headers
    pieces = response.aiter_raw() if plain else response.aiter_bytes()
    try:
        async for piece in pieces:
            for event in reader.feed(piece):
                yield event
            if reader.done:
                break
    except (module.RemoteProtocolError, module.ReadError):
        if reader.empty:
            raise failures.unreachable(reader.origin, "the connection broke") from None
        raise failures.garbage(reader.origin, "it broke off before its end") from None
    for event in reader.finish():
        yield event
    with suppress(TimeoutError, module.TransportError):
        async with deadline(clock, DRAIN_S):  # read to the end, so that the connection is kept
            async for _ in pieces:
                pass


async def _whole(response: httpx.Response, origin: failures.Origin) -> bytes:
    """The whole body, bounded."""
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > BODY_BYTES_MAX:
            raise failures.garbage(origin, f"it is over {BODY_BYTES_MAX} bytes")
    return bytes(body)


async def open_provider(
    endpoint: Endpoint,
    *,
    scope: Scope,
    clock: Clock,
    environ: Mapping[str, str],
    retry: RetryPolicy | None = None,
) -> OpenAIProvider:
    """Make a provider; the caller owns it and ends it with `aclose`.

    httpx (about 150 ms to import) and the certificate store are loaded off the loop.

    Args:
        endpoint: where.
        scope: owns the loading while it lasts; nothing stays in it.
        clock: for the pauses between retries.
        environ: for proxy and certificate variables only (see `http_client`).
        retry: how often; the default is `RetryPolicy()`.

    Raises:
        ConfigError: the base URL, a proxy or a certificate file cannot be used.
    """
    module = await import_off_loop("httpx")
    headers = {"content-type": "application/json", **dict(endpoint.headers)}
    if endpoint.key:
        headers["authorization"] = f"Bearer {endpoint.key}"
    client = await open_client(
        endpoint.base_url, headers, scope=scope, module=module, environ=environ
    )
    return OpenAIProvider(endpoint, client, module, clock, retry)
