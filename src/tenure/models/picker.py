"""Interim picker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tenure.config import Config, Home
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.shared import Shared
from tenure.logs import Redactor
from tenure.models.base import Model, ModelProvider
from tenure.models.scripted import ScriptedProvider
from tenure.processes.spawn import Spawner


class Picked:
    def __init__(self, model: Model, reason: str) -> None:
        self.model = model
        self.reason = reason


class CatalogPicker:
    def __init__(self, scope: Scope, *, home: Home, config: Callable[[], Config], environ: Mapping[str, str], spawner: Spawner, flag: str, redactor: Redactor) -> None:
        self._clock = scope.clock
        self._flag = flag
        self._environ = environ
        self._providers: Shared[str, ModelProvider] = Shared(scope, "model provider", build=self._build, release=lambda p: p.aclose(), idle_s=60.0)

    async def _build(self, name: str) -> ModelProvider:
        if name == "scripted":
            return ScriptedProvider(self._clock)
        from tenure.models.openai import Endpoint, open_provider
        return await open_provider(Endpoint(provider=name, base_url=self._environ["OPENAI_BASE_URL"], api_key="x", api_key_env="OPENAI_API_KEY"), self._clock)

    async def pick(self, wanted: str, into: Scope) -> Picked:
        ref = wanted or self._flag
        provider, _, name = ref.partition(":")
        p = await self._providers.borrow(provider, into)
        return Picked(p.model(name), "because")

    async def options(self) -> dict[str, Any]:
        return {"providers": [], "model": "", "provider": ""}

    async def ready(self) -> tuple[bool, str, str]:
        return True, self._flag, "flag"
