"""A look at something outside, taken once in a turn of the event loop however many ask.

What many sessions want at one instant (have files changed? are descriptors left?) costs a system
call, and each one lets another thread take the interpreter. Within a turn of the loop nobody could
tell the answers apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Glance(Generic[T]):
    """Calls `look` at most once in a turn of the running loop; without a loop, each time.

    Args:
        look: takes the look; what it raises is not kept.
    """

    __slots__ = ("_look", "_seen")

    def __init__(self, look: Callable[[], T]) -> None:
        self._look = look
        self._seen: list[T] = []

    def __call__(self) -> T:
        """What is to be seen now."""
        if not self._seen:
            value = self._look()
            try:
                asyncio.get_running_loop().call_soon(self._seen.clear)
            except RuntimeError:
                return value
            self._seen.append(value)
        return self._seen[0]
