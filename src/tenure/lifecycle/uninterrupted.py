"""Waiting for a short step that a cancellation must not cut in two.

A second cancel aborts an unshielded ``finally``, and ``asyncio.shield`` leaves its task behind with
nobody waiting. This waits for the step first and passes the cancellation on afterwards, so nothing
outlives the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from tenure.clock import Clock

T = TypeVar("T")


async def uninterrupted(clock: Clock, seconds: float, step: Coroutine[Any, Any, T]) -> T:
    """Await `step` to its end; a cancellation that arrives meanwhile is raised after it.

    Args:
        clock: time.
        seconds: after this long the step is cancelled itself; it must obey.
        step: short work that must happen whole, such as one write.

    Raises:
        TimeoutError: the step was cut off by the deadline.
        CancelledError: the caller was cancelled; the step has ended nevertheless.
        Exception: what the step raised (also if the caller was cancelled meanwhile).
    """
    task = asyncio.get_running_loop().create_task(step)
    timer = clock.call_later(seconds, task.cancel)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as exc:
            cancelled = exc
    timer.cancel()
    if task.cancelled():
        raise TimeoutError(f"Not done within {seconds} s.")
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result
