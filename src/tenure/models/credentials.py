"""Keys that were given by ``tenure model login``: one JSON file, readable by its owner only.

Kept as plain text, as the keys in a shell's profile are; the file's mode (0600) is the protection.
A key is never an argument, never logged, and never in a message.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec

from tenure.errors import ConfigError

KEY_CHARS_MAX = 4096


class _Stored(msgspec.Struct):
    key: str


class Credentials:
    """The file. Small, so it is read when asked and written whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> dict[str, str]:
        """Keys by provider; none if there is no file.

        Raises:
            ConfigError: the file cannot be read or is damaged.
        """
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as exc:
            raise ConfigError(f"{self.path} cannot be read: {exc.strerror or exc}.") from None
        try:
            stored = msgspec.json.decode(raw, type=dict[str, _Stored])
        except msgspec.MsgspecError:
            raise ConfigError(
                f"{self.path} is damaged; remove it and run `tenure model login` again."
            ) from None
        return {name: entry.key for name, entry in stored.items()}

    def save(self, provider: str, key: str) -> None:
        """Keep `key` for `provider`, in one rename; the file's mode is 0600.

        Raises:
            ConfigError: the key cannot be one, or the file cannot be written.
        """
        checked_key(key)
        self._write({**self.load(), provider: key})

    def remove(self, provider: str) -> bool:
        """Forget a key; whether there was one. Raises ConfigError."""
        keys = self.load()
        if provider not in keys:
            return False
        del keys[provider]
        self._write(keys)
        return True

    def _write(self, keys: dict[str, str]) -> None:
        body = msgspec.json.format(msgspec.json.encode({n: {"key": k} for n, k in keys.items()}))
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Mode 0600, and a name that upkeep knows, should we be killed now.
            fd, name = tempfile.mkstemp(".part", ".credentials.", self.path.parent)
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(body + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
                Path(name).replace(self.path)
            except OSError:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as exc:
            raise ConfigError(f"{self.path} cannot be written: {exc.strerror or exc}.") from None


def checked_key(key: str) -> str:
    """Return `key` if it may be one: one word of printable ASCII.

    Raises:
        ConfigError: it may not; the message does not repeat it.
    """
    if not key or len(key) > KEY_CHARS_MAX or not key.isascii() or not key.isprintable():
        raise ConfigError("That is no API key: it must be one word of printable ASCII.")
    if " " in key:
        raise ConfigError("That is no API key: it has blanks in it.")
    return key
