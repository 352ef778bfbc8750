"""The memory of histories, all sessions together. What is over it is given back to the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tenure.conversation import Message
from tenure.sessions.events import RingBudget

ENTRY_BYTES = 400
"""What an entry takes beside its text."""


class HistoryBudget:
    """Counts bytes. One per gateway.

    Attributes:
        held_bytes: of all histories in memory now.
        relieve: frees some if that is too much; set by whoever can.
    """

    def __init__(self) -> None:
        self.held_bytes = 0
        self.relieve: Callable[[], None] = _nothing

    def charge(self, count: int) -> None:
        """A history has grown or shrunk by `count` bytes."""
        self.held_bytes += count


@dataclass(frozen=True, slots=True)
class Memory:
    """What all sessions of a gateway keep in memory beside their agents, within budgets."""

    rings: RingBudget = field(default_factory=RingBudget)
    histories: HistoryBudget = field(default_factory=HistoryBudget)


def size_of(message: Message) -> int:
    """Bytes that an entry takes in memory, about."""
    calls = sum(len(call.arguments) for call in message.tool_calls)
    said = len(message.text) + len(message.reasoning)
    return ENTRY_BYTES * (1 + len(message.files)) + said + calls


def _nothing() -> None:
    return
