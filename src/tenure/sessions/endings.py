"""How the ends of turns and of their questions reach the store, also one that fails for a while.

A turn is over in memory at once; its row and its `message.complete` are one write. If that fails,
it is tried again until the session closes, whose last write ends every row that is still open.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from tenure.errors import LeaseLost, StoreError
from tenure.lifecycle.scope import Scope
from tenure.sessions.journal import Journal
from tenure.sessions.projection import Wire
from tenure.store.base import Op

FIRST_PAUSE_S = 1.0
PAUSE_MAX_S = 30.0
"""A store that had no space is asked again after 1, 2, 4 … 30 seconds."""

_End = tuple[Sequence[Op], Sequence[Wire]]


class Endings:
    """The ends of a session's turns and questions, from their decision to their commit.

    Args:
        journal: the session's.
        scope: the session's; owns the task that tries again.
    """

    __slots__ = ("_journal", "_scope", "_trying", "_unsaved")

    def __init__(self, journal: Journal, scope: Scope) -> None:
        self._journal = journal
        self._scope = scope
        self._unsaved: deque[_End] | None = None
        self._trying = False

    def store(self, ops: Sequence[Op], events: Sequence[Wire]) -> asyncio.Future[list[Any]]:
        """Write one end, now and again until it is stored. Never waits; returns the first commit.

        A write that was fenced off is not tried again: the turn was never stored, or has ended.
        """

        def check(done: asyncio.Future[list[object]]) -> None:
            error = done.exception()
            if error is not None and not isinstance(error, LeaseLost):
                self._keep((ops, events))

        commit = self._journal.record(ops, events)
        commit.add_done_callback(check)
        return commit

    def _keep(self, end: _End) -> None:
        self._unsaved = self._unsaved if self._unsaved is not None else deque()
        self._unsaved.append(end)
        if not self._trying and self._scope.admits:
            self._trying = True
            self._scope.spawn(self._try_again(), name="store the ends of turns")

    async def _try_again(self) -> None:
        pause_s = FIRST_PAUSE_S
        while self._unsaved:
            await self._scope.clock.sleep(pause_s)
            pause_s = min(PAUSE_MAX_S, 2 * pause_s)
            try:
                await asyncio.shield(self._journal.record(*self._unsaved[0]))
            except LeaseLost:
                self._unsaved.popleft()
            except StoreError:
                continue
            else:
                self._unsaved.popleft()
        self._trying = False

    def last_try(self) -> None:
        """Write what is left once more; the session's last write follows it."""
        while self._unsaved:
            self._journal.record_nowait(*self._unsaved.popleft())
