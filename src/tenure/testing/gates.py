"""Gates: named points at which a test holds the code under test, and lets it go."""

from __future__ import annotations

import asyncio
import threading

from tenure.lifecycle.threads import call_in_thread
from tenure.testing.waiting import PATIENCE_S


class Gate:
    """Holds tasks until the test releases them. One use: once released it stays open."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._reached = asyncio.Event()
        self.parked = 0
        """How many wait at the gate now."""
        self.passed = 0
        """How many have gone through."""

    async def park(self) -> None:
        """Code under test: wait here. Cancellable."""
        self.parked += 1
        self._reached.set()
        try:
            await self._open.wait()
        finally:
            self.parked -= 1
        self.passed += 1

    async def wait_parked(self) -> None:
        """Test: wait until something has reached the gate."""
        async with asyncio.timeout(PATIENCE_S):
            await self._reached.wait()

    def release(self) -> None:
        """Test: open the gate for good."""
        self._open.set()


class ThreadGate:
    """The same for code in a thread: `park` blocks the thread (at most `PATIENCE_S`)."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._reached = threading.Event()

    def park(self) -> None:
        """Code under test, in its thread: block here."""
        self._reached.set()
        if not self._open.wait(PATIENCE_S):
            raise TimeoutError("Nobody released the gate.")

    async def wait_parked(self) -> None:
        """Test: wait until a thread has reached the gate."""
        if not await call_in_thread(self._reached.wait, PATIENCE_S):
            raise TimeoutError("Nothing reached the gate.")

    def release(self) -> None:
        """Test: open the gate for good."""
        self._open.set()
