"""The providers that Tenure knows by name: where they live, which variable holds their key.

Base URLs and variables are those of the providers' own documentation. A default model is what a
reference without a name means; a local server's is asked of the server.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

from tenure.config import ProviderConfig

Wire = Literal["openai", "library", "starter", "scripted"]


class Listed(msgspec.Struct, frozen=True):
    """One provider.

    Attributes:
        name: the part before the colon.
        wire: which adapter speaks to it.
        title: for people.
        key_envs: variables that may hold its key, the first one for messages.
        base_url: for ``openai``; "" elsewhere.
        base_url_env: a variable that overrides it.
        default_model: for a reference without a name; "" means: ask the server.
        needs_key: a call without one would be refused.
        local: a server on this machine; never chosen by itself.
    """

    name: str
    wire: Wire
    title: str = ""
    key_envs: tuple[str, ...] = ()
    base_url: str = ""
    base_url_env: str = ""
    default_model: str = ""
    needs_key: bool = True
    local: bool = False


def _local(name: str, title: str, port: int, base_url_env: str = "") -> Listed:
    return Listed(
        name,
        "openai",
        title,
        key_envs=(f"{name.upper()}_API_KEY",),
        base_url=f"http://127.0.0.1:{port}/v1",
        base_url_env=base_url_env,
        needs_key=False,
        local=True,
    )


PROVIDERS: tuple[Listed, ...] = (
    Listed(
        "openai",
        "openai",
        "OpenAI",
        key_envs=("OPENAI_API_KEY",),
        base_url="https://api.openai.com/v1",
        base_url_env="OPENAI_BASE_URL",
        default_model="gpt-6.1-terra",
    ),
    Listed(
        "anthropic",
        "library",
        "Anthropic",
        key_envs=("ANTHROPIC_API_KEY",),
        base_url_env="ANTHROPIC_BASE_URL",
        default_model="claude-sonnet-5-5",
    ),
    Listed(
        "openrouter",
        "openai",
        "OpenRouter",
        key_envs=("OPENROUTER_API_KEY",),
        base_url="https://openrouter.ai/api/v1",
        default_model="openrouter/auto",
    ),
    Listed(
        "google",
        "library",
        "Google Gemini",
        key_envs=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        base_url_env="GOOGLE_GEMINI_BASE_URL",
        default_model="gemini-3.8-flash",
    ),
    Listed(
        "mistral",
        "library",
        "Mistral",
        key_envs=("MISTRAL_API_KEY",),
        default_model="mistral-large-latest",
    ),
    Listed(
        "groq",
        "library",
        "Groq",
        key_envs=("GROQ_API_KEY",),
        base_url_env="GROQ_BASE_URL",
        default_model="openai/gpt-oss-120b",
    ),
    Listed(
        "bedrock",
        "library",
        "Amazon Bedrock",
        key_envs=("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"),
        default_model="global.anthropic.claude-sonnet-5-5",
    ),
    _local("ollama", "Ollama", 11434, "OLLAMA_HOST"),
    _local("vllm", "vLLM", 8000),
    _local("lmstudio", "LM Studio", 1234),
    _local("llamacpp", "llama.cpp server", 8080),
    Listed("starter", "starter", "Starter model on this machine", needs_key=False),
    Listed("scripted", "scripted", "Scripted model (tests, demos)", needs_key=False),
)


def listed(name: str, configured: Mapping[str, ProviderConfig]) -> Listed | None:
    """The provider of that name; ``[providers.NAME]`` overrides and adds."""
    known = next((p for p in PROVIDERS if p.name == name), None)
    entry = configured.get(name)
    if entry is None:
        return known
    if known is not None and known.wire in {"openai", "library"}:
        return msgspec.structs.replace(
            known,
            base_url=entry.base_url or known.base_url,
            base_url_env="" if entry.base_url else known.base_url_env,
            key_envs=(entry.api_key_env,) if entry.api_key_env else known.key_envs,
        )
    return Listed(
        name,
        "openai",
        name,
        key_envs=(entry.api_key_env,) if entry.api_key_env else (),
        base_url=entry.base_url,
        needs_key=bool(entry.api_key_env),
    )


def names(configured: Mapping[str, ProviderConfig]) -> list[str]:
    """Every name that `listed` knows."""
    return [*(p.name for p in PROVIDERS), *(n for n in configured if listed(n, {}) is None)]


def key_of(provider: Listed, environ: Mapping[str, str]) -> tuple[str, str]:
    """The key in the environment and the variable that holds it; two empty texts for none."""
    for name in provider.key_envs:
        if environ.get(name):
            return environ[name], name
    return "", ""


def lacks_key(provider: Listed, stored: Collection[str], environ: Mapping[str, str]) -> bool:
    """Whether a call would be refused for want of a key; a server elsewhere may need none."""
    if not provider.needs_key or provider.name in stored or key_of(provider, environ)[0]:
        return False
    return not environ.get(provider.base_url_env)


def base_url_of(provider: Listed, environ: Mapping[str, str]) -> str:
    """The base URL, an override from the environment included.

    ``OLLAMA_HOST`` is ``host``, ``host:port`` or a URL without a path; the others are base URLs.
    """
    given = environ.get(provider.base_url_env, "") if provider.base_url_env else ""
    if not given:
        return provider.base_url
    if provider.base_url_env != "OLLAMA_HOST":
        return given
    host = given if "://" in given else f"http://{given}"
    scheme, _, rest = host.partition("://")
    rest = rest.rstrip("/").replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - a listening address
    if ":" not in rest.rpartition("]")[2]:
        rest += ":11434"
    return f"{scheme}://{rest}/v1"
