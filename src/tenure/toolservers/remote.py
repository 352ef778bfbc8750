"""Servers that are reached by streamable HTTP. What brings the SDK is imported late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.errors import ToolError
from tenure.lifecycle.scope import Scope
from tenure.toolservers.declared import Declared

if TYPE_CHECKING:
    from tenure.toolservers.link import Link


class Network:
    """How remote servers are reached."""

    async def open(self, scope: Scope, link: Link, name: str, server: Declared) -> None:
        """Reach a server and shake hands with it; `scope` owns the connection.

        Raises:
            ToolError: it cannot be reached, or wants a login.
        """
        del scope, link, name, server
        raise ToolError("remote tool servers are not reached yet")
