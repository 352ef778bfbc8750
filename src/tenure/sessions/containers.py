"""Containers of sessions as rows: written before one is made, ended after it is gone, compared.

A comparison at the start finds what a gateway that was killed has left. While containers are used,
another one follows every `EVERY_S`; without any, nothing wakes up.
"""

from __future__ import annotations

import logging

from tenure.clock import Clock
from tenure.errors import TenureError
from tenure.lifecycle.scope import Scope
from tenure.sandbox.docker import Compared, Engine, compare
from tenure.store.base import (
    ContainerRow,
    EndContainer,
    Fence,
    InsertContainer,
    PruneContainers,
    Store,
)

EVERY_S = 60.0
KEEP_S = 30 * 86_400.0
"""How long it is known what a container ended of."""
log = logging.getLogger("tenure.sessions")


class ContainerRows:
    """The rows of one profile; a `Ledger`.

    Args:
        store: the profile's.
        clock: time.
        instance: this gateway's run.
    """

    def __init__(self, store: Store, clock: Clock, instance: str) -> None:
        self._store = store
        self._clock = clock
        self._instance = instance

    async def begin(self, lease: str, session_id: str, epoch: int) -> None:
        """See `Ledger.begin`."""
        row = ContainerRow(lease, session_id, self._instance, self._clock.wall())
        await self._store.write(Fence(f"session:{session_id}", epoch), InsertContainer(row))

    async def end(self, lease: str, reason: str) -> None:
        """See `Ledger.end`."""
        await self._store.write(EndContainer(lease, reason[:500], self._clock.wall()))

    async def live(self) -> list[str]:
        """Those that may be there."""
        return [row.id for row in await self._store.containers()]

    async def prune(self) -> None:
        """Forget what ended long ago."""
        await self._store.write(PruneContainers(self._clock.wall() - KEEP_S))


class ContainerWatch:
    """Compares rows and containers: at the start, and now and then while there are any.

    Args:
        scope: owns the task.
        engine: whose containers.
        rows: the profile's.
    """

    def __init__(self, scope: Scope, engine: Engine, rows: ContainerRows) -> None:
        self._scope = scope
        self._engine = engine
        self._rows = rows

    def begin(self) -> None:
        """From now on, until the scope ends."""
        self._scope.spawn(self._forever(), name="containers")

    async def _forever(self) -> None:
        if await self._rows.live():
            self._engine.used.set()
            await self.once()
        while True:
            await self._engine.used.wait()
            await self._scope.clock.sleep(EVERY_S)
            await self.once()
            if not self._engine.held and not await self._rows.live():
                self._engine.used.clear()

    async def once(self) -> Compared | None:
        """One comparison; what it healed, None if it failed (the next one tries again)."""
        try:
            healed = await compare(self._engine, self._rows, self._rows.live)
            await self._rows.prune()
        except TenureError as exc:
            log.warning("Containers could not be compared with their rows: %s", exc)
            return None
        if healed.removed or healed.ended:
            log.warning("Containers and their rows differed; healed: %s", healed)
        return healed
