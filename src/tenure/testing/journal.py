"""A turn's memory and its asker, in memory, with places to hold or break them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tenure.agent.ports import (
    Compaction,
    Decision,
    Policy,
    Question,
    TurnEvent,
)
from tenure.conversation import Message
from tenure.errors import StoreError


class MemoryJournal:
    """A `TurnJournal` that keeps everything in lists.

    Attributes:
        items: history.
        durable: events that were published with a write, in order.
        published: these and the transient ones, in order.
        before_write: called (and awaited) before each write; may park or raise.
        writes: how many writes were begun.
        fail_at: number of the write (from 1) that raises StoreError, storing nothing; 0 for none.
    """

    def __init__(self, items: Sequence[Message] = ()) -> None:
        self.items: list[Message] = list(items)
        self.durable: list[TurnEvent] = []
        self.published: list[TurnEvent] = []
        self.writes = 0
        self.fail_at = 0
        self.before_write: Callable[[], object] | None = None
        self.delivered: tuple[str, ...] = ()
        self._revision = 0

    @property
    def revision(self) -> int:
        """Counts the changes of history."""
        return self._revision

    def history(self) -> Sequence[Message]:
        """A copy of the items."""
        return tuple(self.items)

    async def caught_up(self) -> None:
        """Always: nothing waits here."""

    async def item(
        self,
        message: Message,
        *,
        events: tuple[TurnEvent, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> None:
        """Append, after two turns of the loop."""
        await self._write()
        self.items.append(message)
        self.delivered += notes
        self._revision += 1
        self._publish(events)

    async def event(self, event: TurnEvent) -> None:
        """Publish, after two turns of the loop."""
        await self._write()
        self._publish((event,))

    def transient(self, event: TurnEvent) -> None:
        """Publish at once."""
        self.published.append(event)

    async def compact(self, change: Compaction, *, events: tuple[TurnEvent, ...] = ()) -> bool:
        """Compare and commit."""
        await self._write()
        if change.revision != self._revision:
            return False
        self.items[: change.dropped] = [change.summary]
        self._revision += 1
        self._publish(events)
        return True

    def interfere(self, message: Message) -> None:
        """Somebody else appends an item."""
        self.items.append(message)
        self._revision += 1

    async def _write(self) -> None:
        self.writes += 1
        number = self.writes
        if self.before_write is not None:
            waiting = self.before_write()
            if asyncio.iscoroutine(waiting):
                await waiting
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if number == self.fail_at:
            raise StoreError("The store failed because the test said so.")

    def _publish(self, events: tuple[TurnEvent, ...]) -> None:
        self.durable += events
        self.published += events


class MemoryAsker:
    """An `Asker` that answers from a list, then allows.

    Attributes:
        asked: the questions, in order.
        decisions: answers to come, first first.
    """

    def __init__(self, *decisions: Decision, policy: Policy | None = None) -> None:
        self.asked: list[Question] = []
        self.decisions = list(decisions)
        self._policy = policy or Policy()

    def policy(self) -> Policy:
        """What is decided already, grants of earlier answers included."""
        return self._policy

    async def ask(self, question: Question) -> Decision:
        """Answer after a turn of the loop."""
        self.asked.append(question)
        await asyncio.sleep(0)
        decision = self.decisions.pop(0) if self.decisions else Decision("once")
        if decision.choice in {"session", "always"}:
            grants = (*self._policy.grants, *question.grants)
            self._policy = Policy(self._policy.rules, grants, self._policy.yes)
        return decision
