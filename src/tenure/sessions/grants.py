"""What somebody allowed "always": a 0600 JSON file in the home, changed by atomic replacement."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from tenure.config import ApprovalRule
from tenure.errors import ConfigError
from tenure.lifecycle.threads import call_in_thread

_decoder = msgspec.json.Decoder(tuple[ApprovalRule, ...])


class Grants:
    """The standing grants of one home. Rules of the configuration that deny still win."""

    def __init__(self, path: Path, rules: tuple[ApprovalRule, ...] = ()) -> None:
        self._path = path
        self.rules = rules

    @classmethod
    def load(cls, path: Path) -> Grants:
        """Read the file; a missing one is empty.

        Raises:
            ConfigError: it is unreadable. Nothing is granted from a file that cannot be read.
        """
        try:
            return cls(path, _decoder.decode(path.read_bytes()))
        except FileNotFoundError:
            return cls(path)
        except (OSError, msgspec.DecodeError) as exc:
            raise ConfigError(f"{path} cannot be read ({exc}); mend or remove it.") from None

    async def add(self, rules: tuple[ApprovalRule, ...]) -> None:
        """Store more grants, then let them count."""
        new = tuple(rule for rule in rules if rule not in self.rules)
        if not new:
            return
        self.rules = (*self.rules, *new)
        await call_in_thread(_replace, self._path, msgspec.json.encode(self.rules))


def _replace(path: Path, content: bytes) -> None:
    part = path.with_suffix(".part")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
    part.replace(path)
