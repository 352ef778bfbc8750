"""No sandbox: commands run on this machine as the user, in the working directory."""

from __future__ import annotations

from pathlib import Path

from tenure.lifecycle.scope import Scope
from tenure.processes.spawn import Process, Spawner
from tenure.sandbox.base import UNCONFINED, Confinement, Order


class Local:
    """Starts what it is given as it is.

    Args:
        spawner: starts children.
        root: the working directory.
        owner: the session, for the label of each child.
        why: why there is no sandbox; empty: nobody wanted one.
    """

    files = None
    hidden = ()

    def __init__(self, spawner: Spawner, root: Path, owner: str, why: str = "") -> None:
        self._spawner = spawner
        self.root = root
        self._owner = owner
        self._why = why

    @property
    def confinement(self) -> Confinement:
        """None."""
        why = f" ({self._why})" if self._why else ""
        return UNCONFINED._replace(about=f"{UNCONFINED.about}{why}") if why else UNCONFINED

    async def start(self, scope: Scope, order: Order) -> Process:
        """See `Sandbox.start`."""
        return await self._spawner.spawn(
            scope,
            order.argv,
            cwd=self.root,
            env=order.env,
            stdin=order.stdin,
            stderr=order.stderr,
            label=order.label,
            kind=order.kind,
            owner=self._owner,
            screen=order.screen,
        )
