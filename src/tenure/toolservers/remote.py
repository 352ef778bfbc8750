"""Servers that are reached by streamable HTTP. What brings the SDK is imported late."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenure.lifecycle.imports import import_off_loop
from tenure.lifecycle.scope import Scope
from tenure.net.dialing import Resolve
from tenure.settings import WebConfig
from tenure.toolservers.declared import Declared

if TYPE_CHECKING:
    from tenure.toolservers.link import Link

LOGINS = "mcp-logins.json"


def _not_told(_secret: str) -> None:
    """Nobody keeps a log."""


class Network:
    """How remote servers are reached.

    Args:
        environ: for proxies and certificates.
        logins: the file of logins; a lock stands beside it.
        web: what of the network may be reached besides the server's own origin.
        resolve: looks names up; None: the system.
        know: told each token, so that the log hides it.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        logins: Path,
        web: Callable[[], WebConfig],
        resolve: Resolve | None = None,
        know: Callable[[str], None] = _not_told,
    ) -> None:
        self.environ = environ
        self.logins = logins
        self.web = web
        self.resolve = resolve
        self.know = know

    async def open(self, scope: Scope, link: Link, name: str, server: Declared) -> None:
        """Reach a server and shake hands with it; `scope` owns the connection.

        Raises:
            ToolError: it cannot be reached, or wants a login.
            ConfigError: a certificate or a proxy cannot be used.
        """
        http: Any = await import_off_loop("tenure.toolservers.http")
        await http.open_remote(scope, link, name, server, self)
