"""The memory of a sub-agent: a `TurnJournal` that ends with it and is stored nowhere.

What outlives a sub-agent is its report, which whoever runs it stores; its steps are shown while
they happen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenure.agent.ports import Compaction, TurnEvent
from tenure.conversation import Message


class Scratch:
    """One sub-agent's history.

    Args:
        task: what it begins with.
        seen: called with each event as it happens; never blocks.

    Attributes:
        notes: notes whose news its entries have brought; they are delivered with its report.
    """

    def __init__(self, task: Message, seen: Callable[[TurnEvent], None]) -> None:
        self._items = [task]
        self._seen = seen
        self._revision = 0
        self.notes: tuple[str, ...] = ()

    @property
    def revision(self) -> int:
        """See `TurnJournal.revision`."""
        return self._revision

    def history(self) -> Sequence[Message]:
        """See `TurnJournal.history`."""
        return self._items

    def add(self, message: Message) -> None:
        """Append an entry now."""
        self._items.append(message)
        self._revision += 1

    async def item(
        self,
        message: Message,
        *,
        events: tuple[TurnEvent, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> None:
        """See `TurnJournal.item`."""
        self.add(message)
        self.notes += notes
        for event in events:
            self._seen(event)

    async def event(self, event: TurnEvent) -> None:
        """See `TurnJournal.event`."""
        self._seen(event)

    def transient(self, event: TurnEvent) -> None:
        """See `TurnJournal.transient`."""
        self._seen(event)

    async def caught_up(self) -> None:
        """Nothing waits for a store."""

    async def compact(self, change: Compaction, *, events: tuple[TurnEvent, ...] = ()) -> bool:
        """See `TurnJournal.compact`."""
        if change.revision != self._revision:
            return False
        self._items[: change.dropped] = [change.summary]
        self._revision += 1
        for event in events:
            self._seen(event)
        return True
