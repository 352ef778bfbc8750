"""Time as an argument: nothing else in Tenure asks the system for it.

`monotonic` stops while the machine sleeps (CLOCK_MONOTONIC), so a grace counted on it cannot
expire during a laptop's sleep. `wall` is for rows and people. Tests use
`tenure.testing.clock.ManualClock`, which passes the same contract tests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class TimerHandle(Protocol):
    """A pending call; `cancel` is idempotent."""

    def cancel(self) -> None:
        """Forget the call if it has not run."""


class Clock(Protocol):
    """The seam to time."""

    def monotonic(self) -> float:
        """Seconds that never go back and do not count suspension."""

    def wall(self) -> float:
        """Seconds since the epoch."""

    def call_later(self, delay_s: float, fn: Callable[[], object]) -> TimerHandle:
        """Call `fn` on the loop thread after `delay_s` seconds. The caller owns the handle."""

    async def sleep(self, delay_s: float) -> None:
        """Wait `delay_s` seconds. Cancellable."""


class SystemClock:
    """The machine's clock, on the running loop."""

    def monotonic(self) -> float:
        """Seconds on CLOCK_MONOTONIC."""
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def call_later(self, delay_s: float, fn: Callable[[], object]) -> TimerHandle:
        """Call `fn` on the running loop after `delay_s` seconds."""
        return asyncio.get_running_loop().call_later(delay_s, fn)

    async def sleep(self, delay_s: float) -> None:
        """Wait `delay_s` seconds."""
        await asyncio.sleep(delay_s)
