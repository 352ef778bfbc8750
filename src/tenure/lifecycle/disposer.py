"""Where things go that nobody may own any more: late products, and releases that never end.

One per tree. It admits everything, releases at once, and shows what it holds in the census until
that is gone. The root's close waits for it (leaked things excepted, or it would never end).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from tenure.lifecycle.entry import CensusEntry, Entry, Failure, LeaseState

if TYPE_CHECKING:
    from tenure.clock import Clock
    from tenure.lifecycle.lease import Lease

log = logging.getLogger("tenure.lifecycle")


class Disposer(Entry):
    """The last owner. Satisfies `Owner`; its leases leave it when their release has ended."""

    __slots__ = ("_held", "clock", "path")

    def __init__(self, path: str, clock: Clock) -> None:
        super().__init__(0)
        self.path = path
        self.clock = clock
        self._held: dict[int, Lease[Any]] = {}

    @property
    def disposer(self) -> Disposer:
        """Itself: there is nobody behind it."""
        return self

    @property
    def admits(self) -> bool:
        """Never: nothing in here can be borrowed or moved out."""
        return False

    def adopt(self, lease: Lease[Any]) -> None:
        """Become the owner of `lease`, without starting anything."""
        self._held[lease.key] = lease
        self.wake()

    def forget(self, entry: Entry) -> None:
        """Its release has ended, however late."""
        self._held.pop(entry.key, None)
        self.wake()

    def record(self, failure: Failure, error: BaseException | None) -> None:
        """Log it: no scope is left that could report it."""
        log.error(
            "%s %r of %s: release %s", failure.kind, failure.label, failure.owner, failure.outcome,
            exc_info=error,
        )  # fmt: skip

    def end(self) -> asyncio.Future[None] | None:
        """None when nothing is being released (what has leaked is not waited for)."""
        if all(lease.state is LeaseState.LEAKED for lease in self._held.values()):
            return None
        return self.changed()

    def census(self) -> list[CensusEntry]:
        """What is still held."""
        return [lease.census_entry() for lease in self._held.values()]
