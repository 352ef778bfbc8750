"""Which weights the starter model has, and where they lie. No network here: see `download`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tenure.errors import ConfigError
from tenure.paths import named

GGUF_MAGIC = b"GGUF"


class Known(msgspec.Struct, frozen=True):
    """Weights that are pinned by size and hash, whatever their source.

    Attributes:
        name: the model part of the reference ``starter:NAME``.
        title: for people.
        file: the file's name in the cache.
        size: bytes.
        sha256: of the whole file.
        context_tokens_max: what the model was trained for.
        chat_only: it cannot call tools sensibly.
    """

    name: str
    title: str
    file: str
    size: int
    sha256: str
    context_tokens_max: int
    chat_only: bool = False


QWEN = Known(
    name="qwen2.5-coder-1.5b",
    title="Qwen2.5-Coder-1.5B-Instruct (Apache-2.0)",
    file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    context_tokens_max=32_768,
)
SMOL = Known(
    name="smollm2-135m",
    title="SmolLM2-135M-Instruct (Apache-2.0), chat only",
    file="smollm2-135m-instruct-q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    context_tokens_max=2_048,
    chat_only=True,
)
KNOWN = (QWEN, SMOL)


class Weights(msgspec.Struct, frozen=True):
    """A file that can be loaded. `known` is None for a file of the user's own."""

    path: Path
    known: Known | None

    @property
    def name(self) -> str:
        """The model part of the reference."""
        return self.known.name if self.known else self.path.stem

    @property
    def title(self) -> str:
        """For people."""
        return self.known.title if self.known else self.path.name

    @property
    def chat_only(self) -> bool:
        """Whether tools are left out."""
        return self.known is not None and self.known.chat_only


def find(models: Path, gguf: str, name: str = "") -> Weights | None:
    """The weights that are there, or None: they must be downloaded first.

    A file was verified by hash before it got its name, so only its size is looked at here.

    Args:
        models: the cache folder.
        gguf: a file of the user's own ("" for none); it comes first.
        name: ``starter:NAME``; "" means the user's file, else the best that is there and calls
            tools: one that only chats answers nobody who has not named it.

    Raises:
        ConfigError: the user's file is missing or no GGUF.
    """
    if gguf and not any(known.name == name for known in KNOWN):
        return Weights(_checked(named(gguf)), None)
    for known in KNOWN:
        path = models / known.file
        wanted = name == known.name or not (name or known.chat_only)
        if wanted and path.is_file() and path.stat().st_size == known.size:
            return Weights(path, known)
    return None


def _checked(path: Path) -> Path:
    try:
        with path.open("rb") as file:
            magic = file.read(len(GGUF_MAGIC))
    except OSError as exc:
        raise ConfigError(
            f"The model file {path} of [starter] gguf cannot be read: {exc.strerror or exc}."
        ) from None
    if magic != GGUF_MAGIC:
        raise ConfigError(f"The model file {path} of [starter] gguf is not a GGUF file.")
    return path
