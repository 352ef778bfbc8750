"""Consent: which files of working directories may bring tool servers, and with which content.

A file brings commands that run, so it counts only if somebody has said so of that very content.
"""

from __future__ import annotations

from pathlib import Path

from tenure.consent import Consents
from tenure.errors import ConfigError
from tenure.toolservers.declared import Servers, read_servers

FILE = "mcp-trusted.json"


class Trust(Consents):
    """What was consented to; see `Consents`."""

    def give(self, path: Path) -> Servers:
        """Consent to `path` as it is now; what it declares.

        Raises:
            ConfigError: it declares nothing, or cannot be read.
        """
        found = read_servers(path)
        if not found.digest:
            raise ConfigError(f"There is no file {path}.")
        self.give_to(path, found.digest)
        return found
