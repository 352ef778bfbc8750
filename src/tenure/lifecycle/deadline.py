"""A deadline on the clock seam, for waiting inside a task.

`asyncio.wait_for` swallows a cancel on Python 3.11 in several of its phases; this is the shape of
`asyncio.timeout`, which does not, with our clock in place of the loop's.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from tenure.clock import Clock, TimerHandle


class deadline:  # noqa: N801 - reads as a statement: async with deadline(clock, 5): …
    """``async with deadline(clock, seconds): …`` raises TimeoutError when time is up.

    Args:
        clock: time.
        seconds: from entering the block; None for no deadline.
    """

    __slots__ = ("_cancelling", "_clock", "_seconds", "_task", "_timer", "expired")

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        self._clock = clock
        self._seconds = seconds
        self._timer: TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self.expired = False

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        if self._seconds is not None:
            self._timer = self._clock.call_later(self._seconds, self._expire)
        return self

    def _expire(self) -> None:
        assert self._task is not None  # the timer ends with the block
        self.expired = True
        self._task.cancel()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        if self._timer is not None:
            self._timer.cancel()
        if not self.expired or task is None:
            return
        # Ours only: when someone else cancelled too, the cancellation goes on.
        if task.uncancel() <= self._cancelling and exc_type is asyncio.CancelledError:
            raise TimeoutError(f"Not done within {self._seconds} s.") from exc
