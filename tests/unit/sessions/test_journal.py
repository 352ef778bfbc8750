"""What is published waits for what is stored, and not longer."""

from __future__ import annotations

import asyncio

from tenure.sessions.budget import Memory
from tenure.sessions.journal import Journal
from tenure.store.base import AppendEvent
from tenure.testing.clock import ManualClock


class HeldCommits:
    """A store whose commits the test ends."""

    def __init__(self) -> None:
        self.commits: list[asyncio.Future[list[int]]] = []

    def write(self, *ops):
        self.commits.append(asyncio.get_running_loop().create_future())
        assert isinstance(ops[-1], AppendEvent)
        return self.commits[-1]


async def test_what_comes_after_a_commit_takes_along_what_waited_for_it():
    store, shown = HeldCommits(), []

    def publish(event, _turn):
        shown.append((event.type, event.seq))

    journal = Journal(store, "s1", 1, ManualClock(), publish, Memory())
    journal.record((), [("message.start", {})])
    journal.transient("message.delta", {"text": "a"})
    assert shown == []
    store.commits[0].set_result([None, 7])
    journal.transient("message.delta", {"text": "b"})
    expected = [("message.start", 7), ("message.delta", 0), ("message.delta", 0)]
    assert shown == expected, "in the same turn of the loop"
    await asyncio.sleep(0)
    assert shown == expected, "and once"


async def test_what_is_said_while_something_is_published_does_not_overtake_it():
    store, shown = HeldCommits(), []

    def publish(event, _turn):
        shown.append((event.type, event.seq))
        if event.type == "message.start":
            journal.transient("status.update", {})

    journal = Journal(store, "s1", 1, ManualClock(), publish, Memory())
    journal.record((), [("message.start", {}), ("session.info", {})])
    journal.record((), [("session.title", {})])
    for number, commit in enumerate(store.commits):
        commit.set_result([3 * number + 1, 3 * number + 2][: 2 - number])
    journal.transient("message.delta", {})
    assert [seq for _, seq in shown if seq] == [1, 2, 4]
    assert [kind for kind, seq in shown if not seq] == ["status.update", "message.delta"]
