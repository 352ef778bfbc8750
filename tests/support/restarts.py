"""One database under several gateways in a row, each of which is stopped or killed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from tenure.config import Config
from tenure.models.script import Script
from tenure.sessions.recovery import PACE_S, Recovery
from tenure.store.holding import settle, take_home
from tenure.store.sqlite import SqliteStore, open_sqlite, prepare
from tenure.testing.clock import ManualClock
from tenure.testing.gateway import TestGateway, open_test_gateway
from tenure.testing.waiting import PATIENCE_S


class Restarts:
    """Boots gateways on one database.

    Attributes:
        clock: of all of them; its wall clock goes with the machine's at the start.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "tenure.db"
        self.clock = ManualClock()
        self.last_seen: float | None = None
        """Overrides when the gateway before was seen last; else that is now."""
        self._copies = 0

    async def store(self, *, hook: bool = False) -> SqliteStore:
        """The database, opened and settled as at a start."""
        store = open_sqlite(self.path, prepare(self.path, self.folder / "backups"))
        held = await take_home(store, "test", 60.0, is_gone=lambda _: True, lost=lambda: None)
        seen = self.clock.wall() if self.last_seen is None else self.last_seen
        await settle(store, held._replace(last_seen=seen), self.clock.wall(), hook=hook)
        return store

    @asynccontextmanager
    async def boot(
        self,
        script: Script,
        *,
        recover: bool = True,
        config: Config | None = None,
        hook: bool = False,
        **more: Any,
    ) -> AsyncIterator[TestGateway]:
        """A gateway on the database; on leaving it stops gracefully."""
        store = await self.store(hook=hook)
        async with open_test_gateway(
            self.folder, script, clock=self.clock, store=store, config=config, **more
        ) as gateway:
            gateway.recovery = Recovery(gateway.root.child("recovery"), gateway.sessions)
            if recover:
                await self.recover(gateway)
            yield gateway

    async def recover(self, gateway: TestGateway) -> None:
        """Take up what is unfinished, as a gateway does when it starts; the time that takes."""
        work = gateway.recovery.begin()
        async with asyncio.timeout(PATIENCE_S):
            while not work.done():
                self.clock.advance(PACE_S)
                await asyncio.sleep(0.001)

    def kill(self) -> None:
        """What the next boot finds is what is on disk now, as after SIGKILL."""
        self._copies += 1
        copy = self.folder / f"killed-{self._copies}.db"
        with closing(sqlite3.connect(self.path)) as db:
            db.execute("VACUUM INTO ?", (str(copy),))
        self.path = copy

    def rows(self, query: str, *args: Any) -> list[tuple[Any, ...]]:
        """A look at the database from outside."""
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as db:
            return db.execute(query, args).fetchall()

    def turns(self) -> list[tuple[str, str, str]]:
        """Prompt, state and cause of every turn, in order."""
        return self.rows("SELECT prompt, state, cause FROM turns ORDER BY ordinal, attempts")
