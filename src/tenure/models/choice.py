"""Which model a session gets, and why: one pure function.

In this order: the session's own wish, the flag, the configured default, a provider whose variable
is in the environment, a provider with a stored key, a server named in the configuration, the
starter. The reason is shown to the person.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping

import msgspec

from tenure.config import Config
from tenure.errors import BadValue
from tenure.models.directory import PROVIDERS, base_url_of, key_of, listed, names

STARTER = "starter"


class Choice(msgspec.Struct, frozen=True):
    """A reference with the clause that says why.

    Attributes:
        provider: a known name.
        name: the model, or "" for the provider's default.
        reason: such as "OPENAI_API_KEY is set".
    """

    provider: str
    name: str
    reason: str

    @property
    def ref(self) -> str:
        """``provider:name``, or the provider alone."""
        return f"{self.provider}:{self.name}" if self.name else self.provider


def parse_ref(text: str, config: Config) -> tuple[str, str]:
    """Split ``provider:name``; a provider alone means its default model.

    Raises:
        BadValue: the provider is not known; the nearest names are told.
    """
    provider, colon, name = text.strip().partition(":")
    if listed(provider, config.providers) is not None:
        return provider, name.strip()
    known = names(config.providers)
    near = difflib.get_close_matches(provider.lower(), known, n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else f"providers: {', '.join(known)}."
    if not colon and not near:
        guess = _likely(provider)
        hint = f"a model is named provider:name, such as {guess}:{provider[:60]}."
    raise BadValue(f"{provider[:60]!r} is no known provider; {hint}")


def choose(
    config: Config,
    environ: Mapping[str, str],
    stored: Collection[str],
    *,
    session: str = "",
    flag: str = "",
) -> Choice:
    """The model to use.

    Args:
        config: for the default and ``[providers.NAME]``.
        environ: for the providers' variables.
        stored: names of providers with a stored key.
        session: what this session asked for, or "".
        flag: what the command line asked for, or "".

    Raises:
        BadValue: a reference names no known provider.
    """
    wishes = (
        (session, "chosen for this session"),
        (flag, "given by --model"),
        (config.model.default, "[model] default in the configuration"),
    )
    for text, reason in wishes:
        if text:
            return Choice(*parse_ref(text, config), reason)
    return (
        _from_environment(config, environ)
        or _from_stored(stored)
        or _from_servers(config, environ)
        or Choice(STARTER, "", "no provider is configured, so the model on this machine")
    )


def _from_environment(config: Config, environ: Mapping[str, str]) -> Choice | None:
    if environ.get("OPENAI_BASE_URL"):
        keyed = bool(environ.get("OPENAI_API_KEY"))
        own = "api.openai.com" in environ["OPENAI_BASE_URL"]
        if keyed or not own:
            # another server's models have other names: it is asked for its list
            return Choice("openai", "", "OPENAI_BASE_URL is set")
    for provider in PROVIDERS:
        entry = listed(provider.name, config.providers) or provider
        if entry.needs_key:
            key, variable = key_of(entry, environ)
            if key:
                return Choice(entry.name, "", f"{variable} is set")
    if environ.get("OLLAMA_HOST"):
        return Choice("ollama", "", "OLLAMA_HOST is set")
    return None


def _from_stored(stored: Collection[str]) -> Choice | None:
    for provider in PROVIDERS:
        if provider.name in stored:
            return Choice(provider.name, "", f"a key of {provider.title} is stored")
    for name in sorted(stored):
        return Choice(name, "", f"a key of {name} is stored")
    return None


def _from_servers(config: Config, environ: Mapping[str, str]) -> Choice | None:
    for name in config.providers:
        entry = listed(name, config.providers)
        if entry is None or not base_url_of(entry, environ):
            continue
        if not entry.needs_key or key_of(entry, environ)[0]:
            return Choice(name, "", f"[providers.{name}] stands in the configuration")
    return None


def _likely(model: str) -> str:
    """The provider that a bare model name most likely belongs to."""
    for prefix, provider in (("claude", "anthropic"), ("gemini", "google"), ("mistral", "mistral")):
        if model.lower().startswith(prefix):
            return provider
    return "openai"
