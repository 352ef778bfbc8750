"""What a server was found to offer, kept on disk, so that offering its tools does not start it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import msgspec

from tenure.home import write_private
from tenure.paths import make_private

TOOLS_MAX = 512
"""Of one server; further ones are left out."""
FILE_BYTES_MAX = 16 * 1024 * 1024
NAME_CHARS_MAX = 64
"""What all providers take as the name of a tool, of letters, digits, dashes and underscores."""
_TAIL_CHARS = 8


class Offer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool of a server."""

    name: str
    """As the server calls it."""
    description: str = ""
    schema: dict[str, Any] = {}
    reads_only: bool = False
    """What the server says of it: a hint, which nothing is decided by."""


class Offers(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that a server offers."""

    tools: tuple[Offer, ...] = ()
    resources: bool = False
    prompts: bool = False


def public_name(server: str, tool: str) -> str:
    """What the model calls a tool: ``mcp__SERVER__TOOL``, shortened with a hash if need be."""
    whole = f"mcp__{server}__{tool}"
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", whole)
    if plain == whole and len(plain) <= NAME_CHARS_MAX:
        return plain
    tail = hashlib.sha256(whole.encode()).hexdigest()[:_TAIL_CHARS]
    return f"{plain[: NAME_CHARS_MAX - _TAIL_CHARS - 1]}_{tail}"


class Catalog:
    """Offers by the digest of their server. Files in a folder of the cache; blocks for a moment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Offers | None] = {}

    def get(self, digest: str) -> Offers | None:
        """What is known; None: nothing yet."""
        if digest not in self._known:
            self._known[digest] = self._read(digest)
        return self._known[digest]

    def put(self, digest: str, offers: Offers) -> bool:
        """Keep what was found; whether it is news. A disk that refuses costs only the keeping."""
        news = self.get(digest) != offers
        self._known[digest] = offers
        if news:
            try:
                make_private(self._folder)
                write_private(self._file(digest), msgspec.json.encode(offers))
            except OSError:
                pass  # in memory it stands
        return news

    def _read(self, digest: str) -> Offers | None:
        try:
            raw = self._file(digest).read_bytes()
            return msgspec.json.decode(raw, type=Offers) if len(raw) <= FILE_BYTES_MAX else None
        except (OSError, msgspec.MsgspecError):
            return None

    def _file(self, digest: str) -> Path:
        return self._folder / f"{digest}.json"
