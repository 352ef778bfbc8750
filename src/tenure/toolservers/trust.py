"""Consent: which files of working directories may bring tool servers, and with which content.

A file brings commands that run, so it counts only if somebody has said so of that very content.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from tenure.errors import ConfigError
from tenure.home import write_private
from tenure.toolservers.declared import Servers, read_servers

FILE = "mcp-trusted.json"
TRUSTED_MAX = 1_000


class Trust:
    """What was consented to, by absolute path: the digest of the content. One 0600 file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> dict[str, str]:
        """All of it. Raises ConfigError if the file is damaged."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
        except FileNotFoundError:
            return {}
        except OSError as exc:
            raise ConfigError(f"{self._path} cannot be read: {exc.strerror or exc}.") from None
        except msgspec.MsgspecError:
            raise ConfigError(f"{self._path} is damaged; remove it and consent again.") from None

    def allows(self, path: Path, digest: str) -> bool:
        """Whether a file with that content may bring servers. In doubt, no."""
        try:
            return bool(digest) and self.load().get(_key(path)) == digest
        except ConfigError:
            return False

    def give(self, path: Path) -> Servers:
        """Consent to `path` as it is now; what it declares.

        Raises:
            ConfigError: it declares nothing, or cannot be read.
        """
        found = read_servers(path)
        if not found.digest:
            raise ConfigError(f"There is no file {path}.")
        known = self.load()
        known.pop(_key(path), None)
        while len(known) >= TRUSTED_MAX:
            del known[next(iter(known))]
        self._write({**known, _key(path): found.digest})
        return found

    def take(self, path: Path) -> bool:
        """Take consent back; whether there was any."""
        known = self.load()
        if known.pop(_key(path), None) is None:
            return False
        self._write(known)
        return True

    def _write(self, known: dict[str, str]) -> None:
        try:
            write_private(self._path, msgspec.json.format(msgspec.json.encode(known)))
        except OSError as exc:
            raise ConfigError(f"{self._path} cannot be written: {exc.strerror or exc}.") from None


def _key(path: Path) -> str:
    """One file has one name, however it is reached."""
    return str(path.resolve())
