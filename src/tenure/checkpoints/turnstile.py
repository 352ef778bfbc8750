"""Who may work in the folder of checkpoints at one time: many that add, or one that changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turnstile:
    """Lets many in together, or one alone; whoever wants to be alone goes before newcomers."""

    __slots__ = ("_alone", "_changed", "_inside", "_wanting")

    def __init__(self) -> None:
        self._inside = 0
        self._alone = False
        self._wanting = 0
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        """Enter beside others; waits for who is alone or wants to be."""
        while self._alone or self._wanting:
            await self._wait()
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            self._tell()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Enter when everybody has left."""
        self._wanting += 1
        try:
            while self._alone or self._inside:
                await self._wait()
            self._alone = True
        finally:
            self._wanting -= 1
            self._tell()
        try:
            yield
        finally:
            self._alone = False
            self._tell()

    async def _wait(self) -> None:
        await self._changed.wait()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
