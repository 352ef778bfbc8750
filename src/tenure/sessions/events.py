"""The recent durable events of a session in memory, so that a short absence costs no disk.

The store holds the whole log; a ring holds its end, bounded by count and bytes, and all rings
together are bounded by the gateway's budget: the one that was used longest ago is dropped whole.
A ring never lies: it either has everything after a cursor or says that it has not.
"""

from __future__ import annotations

from collections import deque

from tenure.protocol.messages import EventParams

RING_EVENTS_MAX = 2_048
RING_BYTES_MAX = 2 * 1024 * 1024
RINGS_BYTES_MAX = 32 * 1024 * 1024
"""Of one gateway, all sessions together."""
EVENT_BYTES = 200
"""What an entry takes beside its payload's JSON."""


class RingBudget:
    """The memory of all rings. One per gateway.

    Args:
        bytes_max: what they may take together.
    """

    def __init__(self, bytes_max: int = RINGS_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._rings: dict[EventRing, None] = {}

    @property
    def held_bytes(self) -> int:
        """What all rings take now."""
        return self._bytes

    def charge(self, ring: EventRing, count: int) -> None:
        """`ring` has grown or shrunk by `count` bytes, and was used now."""
        self._bytes += count
        self._rings.pop(ring, None)
        if ring.held_bytes:
            self._rings[ring] = None
        while self._bytes > self._bytes_max and len(self._rings) > 1:
            next(iter(self._rings)).clear()


class EventRing:
    """The newest durable events of one session in one epoch. Owns memory only.

    Args:
        budget: shared by all rings.
    """

    __slots__ = ("__weakref__", "_budget", "_entries", "held_bytes")

    def __init__(self, budget: RingBudget) -> None:
        self._budget = budget
        self._entries: deque[tuple[EventParams, int]] | None = None
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._entries or ())

    def add(self, event: EventParams, payload_bytes: int) -> None:
        """Take a stored event; the oldest go when it is over a limit.

        Args:
            event: with its number.
            payload_bytes: the size of its payload as JSON.
        """
        size = 2 * payload_bytes + EVENT_BYTES  # as values, and as the frame that was sent
        entries = self._entries = self._entries if self._entries is not None else deque()
        entries.append((event, size))
        before = self.held_bytes
        self.held_bytes += size
        while len(entries) > RING_EVENTS_MAX or (
            self.held_bytes > RING_BYTES_MAX and len(entries) > 1
        ):
            self.held_bytes -= entries.popleft()[1]
        self._budget.charge(self, self.held_bytes - before)

    def since(self, seq: int) -> list[EventParams] | None:
        """Every event after number `seq`, or None if the ring does not reach back so far."""
        entries = self._entries
        if not entries or entries[0][0].seq > seq + 1:
            return None
        return [event for event, _ in entries if event.seq > seq]

    def clear(self) -> None:
        """Give the memory back; the store still has everything."""
        held, self._entries = self.held_bytes, None
        self.held_bytes = 0
        self._budget.charge(self, -held)
