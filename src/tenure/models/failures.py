"""What a provider's failure means, in one sentence: pure translation, no I/O.

Every adapter (`openai`, `providers`, `starter`, `scripted`) tells its failures through these
functions, so that a person reads the same words whoever failed: the provider, the place, the
environment variable that holds the key, and the provider's own words. Keys never appear.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import msgspec

from tenure.errors import ModelBlind, ModelError, ModelGarbage, ModelOverloaded, ModelUnauthorized

WORDS_MAX = 300
"""Characters of a provider's own words that are repeated."""

_KEY_LIKE = re.compile(r"\b(?:sk|gsk|xai|pk|AIza|key)[-_A-Za-z0-9*]{8,}")
_TAG = re.compile(rb"<(?:!doctype|html|head|body|title|h1)\b[^>]*>", re.IGNORECASE)
_TITLE = re.compile(rb"<(?:title|h1)[^>]*>([^<]*)<", re.IGNORECASE)
_REFUSALS = frozenset({400, 404, 415, 422, 500, 501})
_IMAGE_WORDS = re.compile(r"image|vision|multi.?modal|modalit|mmproj", re.IGNORECASE)
_OVERLOAD_WORDS = re.compile(r"overload|rate.?limit|too many requests|capacity", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Origin:
    """Who failed, for the sentence. The secrets do not show in its `repr`.

    Attributes:
        provider: the part before the colon of the reference.
        place: the base URL, without credentials.
        key_env: the environment variable that holds the key, or "".
        secrets: texts that must not appear in a message.
    """

    provider: str
    place: str = ""
    key_env: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def named(self) -> str:
        """Name and place, as in ``openai (https://…)``."""
        return f"{self.provider} ({self.place})" if self.place else self.provider


def cleaned(text: str, secrets: tuple[str, ...] = ()) -> str:
    """`text` on one line, bounded, with secrets and key-like words taken out."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "…")
    text = _KEY_LIKE.sub("…", " ".join(text.split()))
    return text if len(text) <= WORDS_MAX else text[: WORDS_MAX - 1] + "…"


def words_of(body: bytes, secrets: tuple[str, ...] = ()) -> str:
    """The provider's own words in an error body, or "" where there are none.

    Understands ``{"error": {"message": …}}``, ``{"error": "…"}``, ``{"message": …}``,
    ``{"detail": …}``, a list of one of these, an HTML page (its title), and plain text.
    """
    try:
        found = _message_in(msgspec.json.decode(body))
    except msgspec.DecodeError:
        title = _TITLE.search(body)
        raw = title.group(1) if title else (b"" if _TAG.search(body) else body)
        found = raw.decode("utf-8", "replace")
    return cleaned(found, secrets)


def _message_in(value: object) -> str:
    """The first text in `value` that reads like an explanation."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return _message_in(value[0]) if value else ""
    if isinstance(value, dict):
        for key in ("error", "message", "detail", "msg"):
            if value.get(key):
                return _message_in(value[key])
    return ""


def from_status(
    origin: Origin, status: int, words: str, *, retry_after_s: float | None = None, model: str = ""
) -> ModelError:
    """The error for an HTTP `status`.

    Args:
        origin: who answered.
        status: 400-599; anything else counts as garbage.
        words: the provider's own words, already `cleaned`.
        retry_after_s: the provider's hint in seconds.
        model: the model's name, for "not found".
    """
    name = origin.provider
    said = f": {words.rstrip('.')}." if words else "."
    if status in {401, 403}:
        return ModelUnauthorized(
            f"{origin.named} refused the key{_key_place(origin)} (HTTP {status}){said} "
            f"{_key_remedy(origin)}",
            provider=name,
            status=status,
        )
    if status in {408, 425, 429, 529} or status >= 500:
        what = "asks to slow down" if status in {429, 529} else "has a problem of its own"
        wait = f" It asks to wait {retry_after_s:.0f} s." if retry_after_s else ""
        return ModelOverloaded(
            f"{origin.named} {what} (HTTP {status}){said}{wait} "
            "Try again later or choose another model.",
            provider=name,
            status=status,
            retry_after_s=retry_after_s,
        )
    if status == 404:
        return ModelError(
            f"{origin.named} does not know the model {model!r} or this address "
            f"(HTTP 404){said} `tenure model list` shows what it offers.",
            provider=name,
            status=status,
        )
    if 400 <= status < 500:
        return ModelError(
            f"{origin.named} refused the request (HTTP {status}){said}",
            provider=name,
            status=status,
        )
    return garbage(origin, f"it answered with HTTP {status}{said.rstrip('.')}", status=status)


def in_stream(origin: Origin, error: object, *, model: str = "") -> ModelError:
    """The error for an ``error`` object that arrived inside a stream."""
    words = cleaned(_message_in(error), origin.secrets)
    code = error.get("code") if isinstance(error, dict) else None
    status = error.get("status", code) if isinstance(error, dict) else None
    for number in (code, status):
        if isinstance(number, int) and 400 <= number < 600:
            return from_status(origin, number, words, model=model)
    kind = str(error.get("type", "")) if isinstance(error, dict) else ""
    if _OVERLOAD_WORDS.search(f"{kind} {code} {words}"):
        return from_status(origin, 429, words, model=model)
    said = words or "no reason was given"
    return ModelError(
        f"{origin.named} broke off its answer: {said.rstrip('.')}.", provider=origin.provider
    )


def blames_images(error: ModelError) -> bool:
    """Whether a provider has refused a request because of the images in it."""
    return error.status in _REFUSALS and bool(_IMAGE_WORDS.search(error.message))


def blind(ref: str, error: ModelError) -> ModelBlind:
    """The model `ref` does not take images: its provider has refused them with `error`."""
    return ModelBlind(
        f"{ref} does not take images; choose a model that does (/model), then ask again: the image "
        f"is still there. ({error.message})",
        provider=ref.partition(":")[0],
        status=error.status,
    )


def garbage(origin: Origin, what: str, *, status: int | None = None) -> ModelGarbage:
    """The answer cannot be understood; `what` completes "…: " without a full stop."""
    return ModelGarbage(
        f"The answer of {origin.named} cannot be understood: {what}. "
        "Check the base URL, or choose another model.",
        provider=origin.provider,
        status=status,
    )


def unreachable(origin: Origin, why: str) -> ModelOverloaded:
    """No answer at all; `why` is a short clause ("connection refused")."""
    return ModelOverloaded(
        f"{origin.named} cannot be reached: {cleaned(why, origin.secrets).rstrip('.')}. "
        "Check that it is running and that the address and the network are right.",
        provider=origin.provider,
    )


def missing_key(origin: Origin) -> ModelUnauthorized:
    """A key is needed and there is none."""
    return ModelUnauthorized(
        f"{origin.provider} needs a key and there is none. {_key_remedy(origin)}",
        provider=origin.provider,
    )


def _key_place(origin: Origin) -> str:
    return f" in {origin.key_env}" if origin.key_env else ""


def _key_remedy(origin: Origin) -> str:
    login = f"`tenure model login {origin.provider}`"
    return f"Set {origin.key_env} or run {login}." if origin.key_env else f"Run {login}."
