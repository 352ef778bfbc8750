"""What was missed is sent a portion at a time, each event once, and then what was held."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.protocol.messages import EventParams
from tenure.rpc.handlers.attach import PORTION, _begin_replay, _replay
from tenure.sessions.attachments import Attachment
from tenure.sessions.replay import Missed
from tenure.testing.clock import settle


class Peer:
    """Takes everything."""

    def __init__(self) -> None:
        self.got: list[int] = []

    def publish(self, event: EventParams) -> None:
        self.got.append(event.seq)

    async def has_room(self) -> None:
        pass


def event(seq: int) -> EventParams:
    return EventParams("tool.start", "s", {}, seq=seq)


@pytest.fixture
def peer() -> Any:
    return Peer()


def missed(count: int) -> Missed:
    return Missed(events=[event(seq) for seq in range(1, count + 1)])


async def test_then_comes_what_was_held_and_nothing_twice(peer):
    attachment = Attachment(peer, 1)
    attachment.hold()
    for seq in (3, 4):
        attachment.publish(event(seq))
    await _replay(peer, attachment, missed(3), attachment.answers)
    attachment.publish(event(5))
    assert peer.got == [1, 2, 3, 4, 5]


async def test_others_have_a_turn_between_the_portions(peer):
    attachment = Attachment(peer, 1)
    attachment.hold()
    replay = _replay(peer, attachment, missed(3 * PORTION), attachment.answers)
    task = asyncio.ensure_future(replay)
    for portions in range(3):
        await asyncio.sleep(0)
        assert len(peer.got) == portions * PORTION
    await task
    assert len(peer.got) == 3 * PORTION


async def test_a_connection_that_ends_is_sent_no_replay(peer, root):
    peer.scope = root.child("connection")
    peer.scope.claim("a test")
    attachment = Attachment(peer, 1)
    attachment.hold()
    _begin_replay(SimpleNamespace(peer=peer), attachment, missed(3))  # and nothing fails
    await settle()
    assert peer.got == []
