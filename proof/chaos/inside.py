"""The same clients within one process: memory transports, the real sessions and database."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from proof.chaos.ground import INTERNAL, Connection, Ground
from proof.real.wire import Lost, Refused
from tenure.client import Client
from tenure.clock import SystemClock
from tenure.errors import InternalError, TenureError, TransportError
from tenure.lifecycle.scope import Scope
from tenure.models.script import Script
from tenure.store.sqlite import open_sqlite, prepare
from tenure.testing.gateway import open_test_gateway
from tenure.transports.base import TransportClosed


class Inside:
    """A connection without a socket; see `Connection`."""

    def __init__(self, client: Client, scope: Scope) -> None:
        self._client = client
        self._scope = scope
        self.events: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._reader = asyncio.create_task(self._read())
        self._ending: asyncio.Task[Any] | None = None

    async def _read(self) -> None:
        try:
            while True:
                event = await self._client.next_event()
                self.events[event.session_id].append(msgspec.to_builtins(event))
        except TransportClosed:
            return

    async def call(self, method: str, **params: Any) -> Any:
        """Ask; see `Wire.call`."""
        try:
            return await self._client.call(method, **params)
        except TransportError as exc:
            raise Lost(str(exc)) from None
        except TenureError as exc:
            code = INTERNAL if isinstance(exc, InternalError) else 1
            raise Refused(method, {"code": code, "message": exc.message}) from None

    async def until(self, kind: str, session: str, count: int = 1) -> list[dict[str, Any]]:
        """See `Wire.until`."""
        while len(found := [e for e in self.events[session] if e["type"] == kind]) < count:
            await asyncio.sleep(0.001)
        return found

    def abort(self) -> None:
        """Vanish."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._scope.close("gone"))

    async def close(self) -> None:
        """Close."""
        self.abort()
        assert self._ending is not None
        await self._ending
        await self._reader


@asynccontextmanager
async def inside(folder: Path, steps: list[Any], seed: int) -> AsyncIterator[Ground]:
    """A gateway in this process, and its ground."""
    engine = await asyncio.to_thread(prepare, folder / "tenure.db", folder / "backups")
    store = open_sqlite(folder / "tenure.db", engine)
    async with open_test_gateway(
        folder, Script(steps, loop=True), clock=SystemClock(), store=store
    ) as gateway:

        async def connect() -> Connection:
            return Inside(*await gateway.client())

        ground = Ground(connect, seed)
        yield ground
        await ground.aclose()
