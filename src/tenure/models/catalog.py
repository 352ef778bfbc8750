"""Builds the provider for a name, from configuration, environment and stored keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tenure.config import Config, Home
from tenure.conversation import Message
from tenure.errors import BadValue, ConfigError
from tenure.lifecycle.imports import import_off_loop
from tenure.lifecycle.scope import Scope
from tenure.models import failures
from tenure.models.base import ModelProvider, ModelRequest
from tenure.models.credentials import Credentials
from tenure.models.directory import Listed, base_url_of, key_of, listed
from tenure.models.openai import Endpoint, open_provider
from tenure.models.scripted import ScriptedProvider
from tenure.processes.spawn import Spawner


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """What providers are built from.

    Attributes:
        home: for stored keys and the cache of weights.
        config: the present configuration.
        environ: the providers' variables.
        spawner: starts the starter's runtime.
        scope: where providers live; it must outlast them.
        on_key: told every key that is used, so that logs can blank it.
    """

    home: Home
    config: Callable[[], Config]
    environ: Mapping[str, str]
    spawner: Spawner
    scope: Scope
    on_key: Callable[[str], object] = bool

    async def build(self, name: str) -> ModelProvider:
        """Make the provider `name`. The caller owns it and ends it with `aclose`.

        Raises:
            BadValue: no provider has this name.
            ConfigError: its address is missing or unusable, or a package is missing.
            ModelUnauthorized: it needs a key and there is none.
        """
        entry = self.entry(name)
        stored = Credentials(self.home.credentials).load()
        key, variable = key_of(entry, self.environ)
        return await self.build_with_key(entry, key or stored.get(name, ""), variable)

    async def build_with_key(self, entry: Listed, key: str, variable: str = "") -> ModelProvider:
        """As `build`, with a key that need not be stored (for the proof of a login)."""
        if entry.wire == "scripted":
            return ScriptedProvider(self.scope.clock)
        if entry.wire == "starter":
            return await self._starter()
        if key:
            self.on_key(key)
        shown = variable or (entry.key_envs[0] if entry.key_envs else "")
        if entry.wire == "library":
            return await self._library(entry, key, shown)
        endpoint = self._endpoint(entry, key, shown)
        if entry.needs_key and not key and endpoint.base_url == entry.base_url:
            raise failures.missing_key(endpoint.origin)
        return await open_provider(
            endpoint, scope=self.scope, clock=self.scope.clock, environ=self.environ
        )

    async def prove(self, name: str, key: str) -> str:
        """Make one real call with `key`; the model that answered.

        Raises:
            ModelError: the provider does not accept it.
        """
        provider = await self.build_with_key(self.entry(name), key)
        try:
            model = provider.model("")
            request = ModelRequest("", (Message("user", "Say ok."),), max_tokens=16)
            async with model.stream(request) as events:
                async for _ in events:
                    pass
            return model.ref
        finally:
            await provider.aclose()

    def entry(self, name: str) -> Listed:
        """The provider's place in the directory. Raises BadValue."""
        found = listed(name, self.config().providers)
        if found is None:
            raise BadValue(f"{name[:60]!r} is no known provider.")
        return found

    def _endpoint(self, entry: Listed, key: str, variable: str) -> Endpoint:
        base_url = base_url_of(entry, self.environ)
        if not base_url:
            raise ConfigError(f"[providers.{entry.name}] needs a base_url.")
        own = base_url == entry.base_url
        config = self.config()
        configured = config.providers.get(entry.name)
        window = configured.context_tokens if configured else 0
        return Endpoint(
            provider=entry.name,
            base_url=base_url,
            key=key,
            key_env=variable,
            context_tokens=window or config.model.context_tokens,
            default_model=entry.default_model if own else "",
        )

    async def _starter(self) -> ModelProvider:
        module = await import_off_loop("tenure.models.starter.provider")
        provider: ModelProvider = module.StarterProvider(
            self.config().starter,
            models=self.home.models,
            scope=self.scope,
            spawner=self.spawner,
            clock=self.scope.clock,
            environ=self.environ,
        )
        return provider

    async def _library(self, entry: Listed, key: str, variable: str) -> ModelProvider:
        module = await import_off_loop("tenure.models.providers")
        provider: ModelProvider = await module.open_library(
            entry,
            key,
            variable,
            scope=self.scope,
            environ=self.environ,
            base_url=base_url_of(entry, self.environ),
        )
        return provider
