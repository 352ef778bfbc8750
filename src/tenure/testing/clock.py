"""A clock that moves only when told."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable


class ManualTimer:
    """A pending call of a `ManualClock`."""

    __slots__ = ("cancelled", "fn")

    def __init__(self, fn: Callable[[], object]) -> None:
        self.fn = fn
        self.cancelled = False

    def cancel(self) -> None:
        """Forget the call if it has not run."""
        self.cancelled = True


class ManualClock:
    """Passes the same contract as `SystemClock`; time stands still between calls of `advance`.

    Args:
        wall_s: what `wall` says at the start, in seconds since the epoch.
    """

    def __init__(self, wall_s: float = 1_800_000_000.0) -> None:
        self._now = 1_000.0
        self._wall = wall_s - self._now
        self._order = itertools.count()
        self._timers: list[tuple[float, int, ManualTimer]] = []

    def monotonic(self) -> float:
        """Seconds; grows by `advance` only."""
        return self._now

    def wall(self) -> float:
        """Seconds since the epoch; grows by `advance` and `suspend`."""
        return self._wall + self._now

    def call_later(self, delay_s: float, fn: Callable[[], object]) -> ManualTimer:
        """Call `fn` inside the `advance` that passes `delay_s` seconds from now."""
        timer = ManualTimer(fn)
        heapq.heappush(self._timers, (self._now + max(0.0, delay_s), next(self._order), timer))
        return timer

    async def sleep(self, delay_s: float) -> None:
        """Wait until `advance` has passed `delay_s` seconds. Cancellable."""
        if delay_s <= 0:
            await asyncio.sleep(0)
            return
        done = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not done.done():
                done.set_result(None)

        timer = self.call_later(delay_s, wake)
        try:
            await done
        finally:
            timer.cancel()

    @property
    def pending(self) -> int:
        """How many calls wait for their time."""
        return sum(not timer.cancelled for _, _, timer in self._timers)

    def due_in(self, seconds: float) -> int:
        """How many calls wait for the moment `seconds` from now.

        What begins its waiting when a thread, a child or a socket is ready is waited for with
        ``await until(lambda: clock.due_in(30.0))`` before `advance`, which would miss it.
        """
        when = self._now + seconds
        return sum(
            not timer.cancelled and math.isclose(due, when) for due, _, timer in self._timers
        )

    def advance(self, seconds: float) -> None:
        """Move on by `seconds`, making the due calls in their order.

        Call it on the loop thread. Tasks that the calls wake run at the next `await`; use `settle`
        to let them.
        """
        until = self._now + seconds
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, due)
            if not timer.cancelled:
                timer.fn()
        self._now = until

    def suspend(self, seconds: float) -> None:
        """The machine sleeps: the wall clock moves by `seconds`, the monotonic one does not."""
        self._wall += seconds


async def settle(rounds: int = 25) -> None:
    """Give every ready task `rounds` turns of the loop. For threads and children: gates."""
    for _ in range(rounds):
        await asyncio.sleep(0)
