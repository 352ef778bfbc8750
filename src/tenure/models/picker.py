"""Finds the model for a session and borrows what it needs: choice, catalog and sharing together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tenure.config import Config, Home
from tenure.errors import ModelError, TenureError
from tenure.glance import Glance
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.shared import Shared
from tenure.logs import Redactor
from tenure.models.base import Model, ModelProvider, ModelRequest, Picked
from tenure.models.catalog import Catalog
from tenure.models.choice import STARTER, Choice, choose
from tenure.models.credentials import Credentials
from tenure.models.directory import base_url_of, key_of, lacks_key, listed, names
from tenure.models.openai import OpenAIProvider
from tenure.models.starter.weights import KNOWN, find
from tenure.processes.spawn import Spawner

if TYPE_CHECKING:
    from tenure.models.starter.provider import StarterModel, StarterProvider

IDLE_S = 60.0
"""How long a provider's connections are kept when no session uses it."""


class _Made(NamedTuple):
    """A provider, and what it is built from: another address or key is another provider.

    So whoever has borrowed the one goes on with it, and the next borrower gets the other.
    """

    name: str
    config: bytes
    key: str

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<provider {self.name}>"  # a key shows nowhere


class CatalogPicker:
    """The models of one gateway.

    Args:
        scope: where providers live.
        home, config, environ, spawner: see `Catalog`.
        flag: what ``--model`` said, or "".
        redactor: told the keys.
        elder: a picker that outlasts this one; the starter is shared with it, being large and
            without a key.
    """

    def __init__(  # noqa: PLR0913 - the seams it is given
        self,
        scope: Scope,
        *,
        home: Home,
        config: Callable[[], Config],
        environ: Mapping[str, str],
        spawner: Spawner,
        flag: str,
        redactor: Redactor,
        elder: CatalogPicker | None = None,
    ) -> None:
        self._elder = elder
        # made here, so that everything which borrows is younger and lets go before the end
        owner = scope.child("models")
        self._home = home
        self._config = config
        self._environ = environ
        self._flag = flag
        self._keys = Glance(Credentials(home.credentials).load)
        self._now: Glance[dict[str, tuple[Config, Choice, _Made]]] = Glance(dict)
        self.catalog = Catalog(
            home=home,
            config=config,
            environ=environ,
            spawner=spawner,
            scope=owner,
            on_key=redactor.know,
        )
        self._providers: Shared[_Made, ModelProvider] = Shared(
            owner,
            "model provider",
            build=lambda made: self.catalog.build(made.name),
            release=lambda provider: provider.aclose(),
            idle_s=IDLE_S,
            grace_s=15.0,
        )

    def choose(self, wanted: str = "") -> Choice:
        """The choice for `wanted` ("" : by itself). Raises BadValue, ConfigError."""
        stored = self._keys()
        return choose(self._config(), self._environ, stored, session=wanted, flag=self._flag)

    async def pick(self, wanted: str, into: Scope) -> Picked:
        """The model for `wanted` (empty: choose). What it shares is borrowed into `into`.

        Raises:
            ModelError, ConfigError, BadValue: none can be had; one sentence.
        """
        choice, made = self._chosen(wanted)
        provider = await self._sharing(made)._providers.borrow(made, into)  # noqa: SLF001 - its kind
        return Picked(await self._model(provider, choice.name, into), choice.reason)

    def _chosen(self, wanted: str) -> tuple[Choice, _Made]:
        """The choice and its provider; the same for all who ask in a turn of the loop."""
        chosen, config = self._now(), self._config()
        found = chosen.get(wanted)
        if found is None or found[0] is not config:
            choice = self.choose(wanted)
            found = chosen[wanted] = config, choice, self._made(choice.provider)
        return found[1], found[2]

    def _sharing(self, made: _Made) -> CatalogPicker:
        """Who has, or builds, this provider."""
        elder = self._elder
        same = elder is not None and made.name == STARTER and elder._made(STARTER) == made  # noqa: SLF001
        return elder if elder is not None and same else self

    def _made(self, name: str) -> _Made:
        config = self._config()
        parts = [config.starter] if name == STARTER else [config.providers.get(name), config.model]
        return _Made(name, msgspec.json.encode(parts), self._keys().get(name, ""))

    async def _model(self, provider: ModelProvider, name: str, into: Scope) -> Model:
        if isinstance(provider, OpenAIProvider):
            if not name and not provider.endpoint.default_model:
                name = await provider.first_model()
            return provider.model(name)
        if provider.name == STARTER:
            starter: StarterProvider = provider  # type: ignore[assignment]
            wanted = starter.model(name)
            there = starter.weights(name)  # says now what is missing
            # by its name: what serves is told, has its own window, and is loaded once
            return wanted if name else starter.model(there.name)
        return provider.model(name)

    def read_ahead(self, model: Model, prefix: Callable[[], ModelRequest], into: Scope) -> None:
        """Load the starter and let it read `prefix` while the person still types.

        Other models need nothing: their servers read faster than anybody types.
        """
        if model.ref.partition(":")[0] == STARTER:
            starter: StarterModel = model  # type: ignore[assignment]
            into.spawn(_preload(starter, prefix()), name="read ahead")

    async def options(self) -> dict[str, Any]:
        """Providers and models to choose from, for ``model.options``; asks no server."""
        config = self._config()
        stored = self._keys()
        choice = self.choose()
        rows = []
        for name in names(config.providers):
            entry = listed(name, config.providers)
            if entry is None or entry.wire == "scripted":
                continue
            usable = bool(name in stored or key_of(entry, self._environ)[0])
            ready = not lacks_key(entry, stored, self._environ)
            if not usable and name not in {choice.provider, STARTER, *config.providers}:
                continue
            models = [k.name for k in KNOWN] if name == STARTER else [entry.default_model]
            if name == choice.provider and choice.name:
                models.insert(0, choice.name)
            kept = list(dict.fromkeys(m for m in models if m))
            rows.append(
                {
                    "slug": name,
                    "name": entry.title or name,
                    "models": kept,
                    "total_models": len(kept),
                    "is_current": name == choice.provider,
                    "is_user_defined": name in config.providers,
                    "source": base_url_of(entry, self._environ) or entry.title,
                    "authenticated": ready,
                }
            )
        return {"providers": rows, "provider": choice.provider, "model": choice.name}

    async def ready(self) -> tuple[bool, str, str]:
        """Whether some model can serve, which, and why; nothing is started or asked."""
        try:
            choice = self.choose()
            if choice.provider == STARTER:
                found = find(self._home.models, self._config().starter.gguf, choice.name)
                if found is None:
                    return False, choice.ref, "the starter model is not downloaded yet"
            entry = self.catalog.entry(choice.provider)
        except TenureError as exc:
            return False, "", exc.message
        if lacks_key(entry, self._keys(), self._environ):
            return False, choice.ref, f"{choice.provider} needs a key and there is none"
        return True, choice.ref, choice.reason


async def _preload(model: StarterModel, request: ModelRequest) -> None:
    """Ahead of the first prompt. What fails here is told by the first call."""
    try:
        await model.preload(request)
    except ModelError:
        return
