"""The ring of recent events: bounded, and never wrong about what it has."""

from __future__ import annotations

from tenure.protocol.messages import EventParams
from tenure.sessions import events
from tenure.sessions.events import EventRing, RingBudget


def filled(budget, count, size=100, first=1):
    ring = EventRing(budget)
    for seq in range(first, first + count):
        ring.add(EventParams("x", "s", {}, 1, seq), size)
    return ring


def seqs(found):
    return None if found is None else [event.seq for event in found]


def test_it_has_everything_after_a_cursor_or_says_that_it_has_not():
    ring = filled(RingBudget(), 5, first=3)
    assert seqs(ring.since(2)) == [3, 4, 5, 6, 7]
    assert seqs(ring.since(5)) == [6, 7]
    assert seqs(ring.since(7)) == []
    assert ring.since(1) is None
    assert EventRing(RingBudget()).since(0) is None


def test_limits_of_one_ring(monkeypatch):
    monkeypatch.setattr(events, "RING_EVENTS_MAX", 4)
    ring = filled(RingBudget(), 9)
    assert seqs(ring.since(5)) == [6, 7, 8, 9] and len(ring) == 4
    monkeypatch.setattr(events, "RING_BYTES_MAX", 3 * (200 + events.EVENT_BYTES))
    ring = filled(RingBudget(), 9)
    assert len(ring) == 3 and ring.held_bytes == events.RING_BYTES_MAX
    huge = filled(RingBudget(), 2, size=10**9)
    assert seqs(huge.since(1)) == [2], "the newest is always there"


def test_a_ring_that_was_cleared_takes_nothing():
    budget = RingBudget()
    filled(budget, 2).clear()
    assert budget.held_bytes == 0 and not budget._rings


def test_all_rings_together_are_bounded_and_the_longest_unused_goes():
    budget = RingBudget(bytes_max=10 * (200 + events.EVENT_BYTES))
    first, second = filled(budget, 4), filled(budget, 4)
    first.add(EventParams("x", "s", {}, 1, 5), 100)
    third = filled(budget, 3)
    assert len(second) == 0 and second.since(0) is None
    assert len(first) == 5 and len(third) == 3
    assert budget.held_bytes == first.held_bytes + third.held_bytes
    first.clear()
    third.clear()
    assert budget.held_bytes == 0 and not budget._rings
