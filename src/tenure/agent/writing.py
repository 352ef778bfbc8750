"""One journal write: whole, or a failure of the store."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from tenure.clock import Clock
from tenure.errors import StoreError
from tenure.lifecycle.uninterrupted import uninterrupted

WRITE_S = 10.0
"""Bound of one journal write, in seconds; a healthy one takes milliseconds."""


async def write_whole(clock: Clock, step: Coroutine[Any, Any, None]) -> None:
    """Await a write to its end, which a cancellation does not cut.

    Raises:
        StoreError: it failed, or was not done within `WRITE_S`.
        CancelledError: after the write's end.
    """
    try:
        await uninterrupted(clock, WRITE_S, step)
    except TimeoutError:
        raise StoreError(f"The store did not answer within {WRITE_S:.0f} s.") from None
