"""Anthropic, Google, Bedrock, Mistral and Groq, through pydantic-ai's model layer.

The library is large, so it is an extra (``pip install 'tenure[providers]'``) and is imported off
the loop on first use. Its HTTP client is made in a thread (certificates), owned here, and closed by
`LibraryProvider.aclose`. Its own retries are switched off: ours are visible.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from types import ModuleType
from typing import Any

import msgspec

from tenure.clock import Clock
from tenure.errors import BadValue, ConfigError, ModelError
from tenure.lifecycle.imports import import_off_loop
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import run_in_thread
from tenure.models import failures, windows
from tenure.models.base import BLIND, ModelEvent, ModelInfo, ModelRequest, Sight
from tenure.models.directory import Listed
from tenure.models.retry import RetryPolicy, retried
from tenure.models.sight import sees

TAKE_PDFS = frozenset({"anthropic", "google", "bedrock"})
"""Providers that read PDFs themselves; the others get their text."""


class _Adapter(msgspec.Struct, frozen=True):
    """Where the library keeps a provider."""

    module: str
    model: str
    provider: str


_ADAPTERS = {
    "anthropic": _Adapter("anthropic", "AnthropicModel", "AnthropicProvider"),
    "google": _Adapter("google", "GoogleModel", "GoogleProvider"),
    "groq": _Adapter("groq", "GroqModel", "GroqProvider"),
    "mistral": _Adapter("mistral", "MistralModel", "MistralProvider"),
    "bedrock": _Adapter("bedrock", "BedrockConverseModel", "BedrockProvider"),
}


class Library(msgspec.Struct, frozen=True):
    """The imported parts of the library."""

    direct: ModuleType
    wire: ModuleType
    models: ModuleType
    errors: ModuleType


class LibraryProvider:
    """Owns one of the library's providers, with its HTTP client. Made by `open_library`."""

    def __init__(
        self,
        entry: Listed,
        origin: failures.Origin,
        inner: Any,
        library: Library,
        clock: Clock,
    ) -> None:
        self.entry = entry
        self.origin = origin
        self.inner = inner
        self.library = library
        self.clock = clock
        self.retry = RetryPolicy()
        self.blind: set[str] = set()
        """Models that have refused an image."""
        self._closed = False

    @property
    def name(self) -> str:
        """The part before the colon."""
        return self.entry.name

    def model(self, name: str) -> LibraryModel:
        """The model of that name; "" means the provider's default.

        Raises:
            BadValue: the name has blanks or control characters.
        """
        if any(c.isspace() or not c.isprintable() for c in name):
            raise BadValue(f"{name[:60]!r} cannot be the name of a model of {self.name}.")
        return LibraryModel(self, name or self.entry.default_model)

    async def list_models(self) -> list[ModelInfo]:
        """The default model, and the ones that the library knows by name; the API is not asked."""
        known = self.library.wire.known_models(self.name)
        listed = dict.fromkeys([self.entry.default_model, *known])
        return [ModelInfo(name, windows.context_tokens(name)) for name in listed if name]

    async def aclose(self) -> None:
        """Close the HTTP client. Idempotent."""
        if not self._closed:
            self._closed = True
            await self.inner.__aexit__(None, None, None)


class LibraryModel:
    """One model. Owns nothing."""

    __slots__ = ("_inner", "_name", "_provider")

    def __init__(self, provider: LibraryProvider, name: str) -> None:
        self._provider = provider
        self._name = name
        kind = getattr(provider.library.models, _ADAPTERS[provider.name].model)
        self._inner = kind(name, provider=provider.inner)

    @property
    def ref(self) -> str:
        """``provider:name``."""
        return f"{self._provider.name}:{self._name}"

    @property
    def context_tokens(self) -> int:
        """As known by name."""
        return windows.context_tokens(self._name)

    @property
    def small(self) -> bool:
        """No."""
        return False

    @property
    def sight(self) -> Sight:
        """What the library's profile of it and its name say."""
        if self._name in self._provider.blind:
            return BLIND
        profile = self._inner.profile
        known = sees(self._name)
        images = False if not profile.get("supports_image_input", True) else known
        documents = profile.get("supports_document_input", True)
        return Sight(images, pdfs=documents and self._provider.name in TAKE_PDFS)

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Open one call; tried again while nothing was said."""
        provider = self._provider
        return retried(lambda: self._attempt(request), provider.clock, provider.retry)

    @asynccontextmanager
    async def _attempt(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        async with aclosing(self._events(request)) as events:
            yield events

    async def _events(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        library = self._provider.library
        wire = library.wire
        messages, offered = wire.history(request), wire.parameters(request.tools)
        settings = wire.settings(request, self._provider.name)
        try:
            opened = library.direct.model_request_stream(
                self._inner,
                messages,
                model_settings=settings,
                model_request_parameters=offered,
            )
            async with opened as stream:
                async for told in stream:
                    event = wire.event(told)
                    if event is not None:
                        yield event
                ending = wire.ending(stream.get())
        except Exception as exc:  # noqa: BLE001 - the border of a library with many clients below it
            failure = self._failure(exc)
            if request.media and failures.blames_images(failure):
                self._provider.blind.add(self._name)
                failure = failures.blind(self.ref, failure)
            raise failure from None
        if not ending:
            raise failures.garbage(self._provider.origin, "it is empty")
        for event in ending:
            yield event

    def _failure(self, exc: Exception) -> ModelError:
        """Whatever the library or a client below it raised, as one of ours."""
        errors, origin = self._provider.library.errors, self._provider.origin
        if isinstance(exc, errors.ModelHTTPError):
            words = failures.words_of(_body_bytes(exc.body), origin.secrets)
            words = words or failures.cleaned(_cause(exc), origin.secrets)
            return failures.from_status(
                origin,
                exc.status_code,
                words,
                retry_after_s=getattr(exc, "retry_after", None),
                model=self._name,
            )
        if isinstance(exc, errors.ModelConnectionError):
            return failures.unreachable(origin, _cause(exc))
        if isinstance(exc, errors.ModelRateLimitError | errors.ModelUnavailableError):
            return failures.from_status(origin, 429, failures.cleaned(str(exc), origin.secrets))
        if isinstance(exc, errors.ModelAuthenticationError):
            return failures.from_status(origin, 401, failures.cleaned(str(exc), origin.secrets))
        said = failures.cleaned(_cause(exc), origin.secrets)
        return failures.garbage(origin, said.rstrip(".") or type(exc).__name__)


async def open_library(
    entry: Listed,
    key: str,
    key_env: str,
    *,
    scope: Scope,
    environ: Mapping[str, str],
    base_url: str = "",
) -> LibraryProvider:
    """Make a provider; the caller owns it and ends it with `aclose`.

    Args:
        entry: which one.
        key: its API key ("" for Bedrock with AWS credentials).
        key_env: the variable it came from, for messages.
        scope: owns the threads that import and construct, while they last.
        environ: AWS variables for Bedrock.
        base_url: another address ("" for the provider's own).

    Raises:
        ConfigError: the extra is not installed.
        ModelUnauthorized: there is no key.
    """
    origin = failures.Origin(entry.name, base_url, key_env, (key,))
    if not key:
        raise failures.missing_key(origin)
    library, kind = await _load(entry.name)
    options = _options(entry.name, key, key_env, base_url, environ)
    try:
        inner = await run_in_thread(scope, lambda: kind(**options))
    except Exception as exc:  # noqa: BLE001 - many clients, each with errors of its own
        raise ConfigError(
            f"{entry.name} cannot be set up: {failures.cleaned(str(exc), origin.secrets)}"
        ) from None
    if hasattr(inner.client, "max_retries"):
        inner.client.max_retries = 0
    await inner.__aenter__()
    return LibraryProvider(entry, origin, inner, library, scope.clock)


async def _load(name: str) -> tuple[Library, Any]:
    """Import what the provider needs, off the loop.

    Raises:
        ConfigError: it is not installed.
    """
    adapter = _ADAPTERS[name]
    try:
        models = await import_off_loop(f"pydantic_ai.models.{adapter.module}")
        providers = await import_off_loop(f"pydantic_ai.providers.{adapter.module}")
        library = Library(
            direct=await import_off_loop("pydantic_ai.direct"),
            wire=await import_off_loop("tenure.models.library_wire"),
            models=models,
            errors=await import_off_loop("pydantic_ai.exceptions"),
        )
    except ImportError as exc:
        raise ConfigError(
            f"The provider {name} needs an extra that is not installed ({exc.name or exc}): "
            "run pip install 'tenure[providers]'."
        ) from None
    return library, getattr(providers, adapter.provider)


def _options(
    name: str, key: str, key_env: str, base_url: str, environ: Mapping[str, str]
) -> dict[str, Any]:
    """The keyword arguments of the library's provider."""
    options: dict[str, Any] = {"base_url": base_url} if base_url else {}
    if name != "bedrock":
        return {**options, "api_key": key}
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    options["region_name"] = region
    if key_env == "AWS_ACCESS_KEY_ID":
        options |= {
            "aws_access_key_id": key,
            "aws_secret_access_key": environ.get("AWS_SECRET_ACCESS_KEY", ""),
            "aws_session_token": environ.get("AWS_SESSION_TOKEN") or None,
        }
    elif key_env == "AWS_PROFILE":
        options["profile_name"] = key
    else:
        options["api_key"] = key
    return options


def _body_bytes(body: object) -> bytes:
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError):
        return b""


def _cause(exc: BaseException) -> str:
    """What the innermost known cause says."""
    while exc.__cause__ is not None:
        exc = exc.__cause__
    return str(exc) or type(exc).__name__
