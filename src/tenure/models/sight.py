"""Which models see, as known by name, for servers that do not tell.

Sources: the providers' model pages, read 2026-11. Only families: by prefix, the longest wins, then
by a mark in the name. What is in neither is tried; a server that refuses an image is believed.
"""

from __future__ import annotations

_BY_PREFIX = {
    "gpt-6": True,
    "gpt-5": True,
    "gpt-4.1": True,
    "gpt-4o": True,
    "gpt-4-turbo": True,
    "gpt-4": False,
    "gpt-3.5": False,
    "gpt-oss": False,
    "o1": True,
    "o1-mini": False,
    "o3": True,
    "o3-mini": False,
    "o4": True,
    "claude-": True,
    "gemini-": True,
    "gemma-3": True,
    "gemma3": True,
    "pixtral": True,
    "llava": True,
    "llama-4": True,
    "llama4": True,
    "llama-3.1": False,
    "llama-3.3": False,
    "llama3.1": False,
    "llama3.3": False,
    "mistral-7b": False,
    "mixtral": False,
    "codestral": False,
    "deepseek-": False,
    "qwen2.5-coder": False,
    "qwen3-coder": False,
    "phi-3": False,
    "phi3": False,
    "starcoder": False,
}
_MARKS = ("-vl", "vision", "-omni", "minicpm-v", "moondream", "deepseek-vl")


def sees(model: str) -> bool | None:
    """Whether `model` takes images (vendor prefixes are skipped); None where nobody knows."""
    bare = model.rsplit("/", 1)[-1].lower()
    if any(mark in bare for mark in _MARKS):
        return True
    found = [prefix for prefix in _BY_PREFIX if bare.startswith(prefix)]
    return _BY_PREFIX[max(found, key=len)] if found else None
