"""Context windows that are known by name, for servers that do not tell.

Sources: the providers' model pages, read 2026-11. Only families, by prefix; the longest prefix
wins. `ModelConfig.context_tokens` and `ProviderConfig.context_tokens` override.
"""

from __future__ import annotations

SAFE_TOKENS = 32_768
"""Where nothing is known: small enough for every current server model, large enough to work."""

_BY_PREFIX = {
    "gpt-6": 922_000,
    "gpt-5": 272_000,
    "gpt-5.6": 922_000,
    "gpt-oss": 128_000,
    "gpt-4.1": 1_000_000,
    "gpt-4o": 128_000,
    "gpt-4-turbo": 128_000,
    "o3": 200_000,
    "o4": 200_000,
    "claude-": 200_000,
    "gemini-": 1_000_000,
    "mistral-large": 128_000,
    "mistral-medium": 128_000,
    "llama-3.1": 128_000,
    "llama-3.3": 128_000,
}


def context_tokens(model: str) -> int:
    """The window of `model` (vendor prefixes such as ``openai/`` are skipped)."""
    bare = model.rsplit("/", 1)[-1].lower()
    found = [prefix for prefix in _BY_PREFIX if bare.startswith(prefix)]
    return _BY_PREFIX[max(found, key=len)] if found else SAFE_TOKENS
