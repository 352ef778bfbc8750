"""Consent to what a working directory brings: by absolute path, bound to the content's hash."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tenure.errors import ConfigError
from tenure.home import write_private

KNOWN_MAX = 1_000
"""Consents that are kept; the oldest goes first."""


class Consents:
    """What was consented to: the digest of the content, by absolute path. One 0600 file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> dict[str, str]:
        """All of it. Raises ConfigError if the file is damaged."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=dict[str, str])
        except FileNotFoundError:
            return {}
        except OSError as exc:
            raise ConfigError(f"{self.path} cannot be read: {exc.strerror or exc}.") from None
        except msgspec.MsgspecError:
            raise ConfigError(f"{self.path} is damaged; remove it and consent again.") from None

    def of(self, path: Path) -> str:
        """The digest of what was consented to there; empty: nothing, or that cannot be told."""
        try:
            return self.load().get(_key(path), "")
        except ConfigError:
            return ""

    def allows(self, path: Path, digest: str) -> bool:
        """Whether content with that digest counts. In doubt, no."""
        return bool(digest) and self.of(path) == digest

    def give_to(self, path: Path, digest: str) -> None:
        """Consent to `path` with that content. Raises ConfigError: it cannot be stored."""
        known = self.load()
        known.pop(_key(path), None)
        while len(known) >= KNOWN_MAX:
            del known[next(iter(known))]
        self._write({**known, _key(path): digest})

    def take(self, path: Path) -> bool:
        """Take consent back; whether there was any."""
        known = self.load()
        if known.pop(_key(path), None) is None:
            return False
        self._write(known)
        return True

    def _write(self, known: dict[str, str]) -> None:
        try:
            write_private(self.path, msgspec.json.format(msgspec.json.encode(known)))
        except OSError as exc:
            raise ConfigError(f"{self.path} cannot be written: {exc.strerror or exc}.") from None


def _key(path: Path) -> str:
    """One file has one name, however it is reached."""
    return str(path.resolve())
