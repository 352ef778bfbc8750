"""A connection alone: what it reads, runs and answers, how it ends, and a peer that is too slow."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.lifecycle.scope import Scope
from tenure.protocol.messages import EventParams
from tenure.rpc import connection as module, outbox
from tenure.rpc.connection import LAST_ANSWERS_S, TELL_S, Connection
from tenure.rpc.handlers import HANDLERS
from tenure.testing.clock import ManualClock, settle
from tenure.testing.gates import Gate
from tenure.transports.base import TransportClosed


class Wire:
    """A transport by hand: `asks` is what the peer says, `sent` what it was sent.

    Attributes:
        direct: frames go out without waiting.
        gate: each other frame waits for it.
    """

    peer = "test"

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        self.direct = True
        self.gate: Gate | None = None
        self.broken = False
        self.aborted = False
        self.closed: list[tuple[int, str]] = []

    def ask(self, number: int | None, method: str = "voice.tts") -> None:
        asked = {"method": method} if number is None else {"id": number, "method": method}
        self.inbox.put_nowait(json.dumps(asked).encode())

    def leave(self, *, listening: bool = False) -> None:
        self.inbox.put_nowait(TransportClosed(listening=listening))

    async def receive(self) -> bytes:
        await asyncio.sleep(0)  # others have a turn
        said = await self.inbox.get()
        if isinstance(said, Exception):
            raise said
        return said

    async def send(self, frame: bytes) -> None:
        if self.gate is not None:
            await self.gate.park()
        if self.broken:
            raise TransportClosed
        self.sent.append(json.loads(frame))

    def send_nowait(self, frame: bytes, *, at_once: bool = False) -> bool:
        if self.direct:
            self.sent.append(json.loads(frame))
        return self.direct

    def abort(self) -> None:
        self.aborted = True
        self.leave()

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        self.closed.append((code, reason))

    @property
    def answered(self) -> list[int]:
        return [frame["id"] for frame in self.sent if "id" in frame]


class World:
    """A connection that runs, in a scope below `root`."""

    def __init__(self, root: Scope, clock: ManualClock) -> None:
        self.clock, self.wire = clock, Wire()
        self.scope = root.child("connection")
        sessions = SimpleNamespace(find=lambda _: None)
        gateway: Any = SimpleNamespace(clock=clock, instance="test-0", sessions=sessions)
        self.connection = Connection(self.wire, gateway, self.scope)
        self.running = root.spawn(self.connection.run(), name="run").value

    def held(self, name: str) -> int:
        return sum(entry.label == name for entry in self.scope.census())


@pytest.fixture
async def world(root, clock):
    made = World(root, clock)
    await settle()
    return made


@pytest.fixture
def parked(monkeypatch) -> Gate:
    """`test.park` waits here."""
    gate = Gate()

    async def park(_params, _call):
        await gate.park()
        return {}

    serve(monkeypatch, "test.park", park)
    return gate


def serve(monkeypatch, method, handler):
    """Let there be a method."""
    from tenure.protocol.params import Empty
    from tenure.rpc import dispatch

    monkeypatch.setitem(HANDLERS, method, handler)
    monkeypatch.setitem(dispatch._decoders, method, dispatch.msgspec.json.Decoder(Empty))


def event(n: int = 0) -> EventParams:
    return EventParams("tool.start", "s", {"n": n})


# --- a peer that is too slow ----------------------------------------------------------------------


async def overflowed(world: World, monkeypatch) -> None:
    monkeypatch.setattr(outbox, "EVENT_BYTES_MAX", 200)
    world.wire.direct, world.wire.gate = False, Gate()
    for n in range(9):
        world.connection.publish(event(n))
    await settle()


async def test_one_that_takes_nothing_is_cut_off_after_a_while(world, monkeypatch):
    await overflowed(world, monkeypatch)
    assert world.held("drop") == 1, "however often it was too slow"
    world.clock.advance(TELL_S - 0.1)
    await settle()
    assert not world.wire.aborted, "it has time to take what waits"
    world.clock.advance(0.1)
    await settle()
    assert world.wire.aborted and world.running.done()


async def test_one_that_takes_what_waits_is_told_why(world, monkeypatch):
    await overflowed(world, monkeypatch)
    world.wire.gate.release()
    await settle()
    assert world.wire.closed[0][0] == 1013 and "reconnect" in world.wire.closed[0][1]
    kept = [frame["params"]["payload"]["n"] for frame in world.wire.sent[1:]]
    assert kept == [0, 1], "what there was room for"


async def test_what_is_published_to_one_that_ends_fails_nobody(world, monkeypatch):
    monkeypatch.setattr(outbox, "EVENT_BYTES_MAX", 200)
    world.wire.direct = False
    world.scope.claim("a test")
    for n in range(9):
        world.connection.publish(event(n))
    world.connection.overflow()


# --- a peer that asks much ------------------------------------------------------------------------


async def test_one_that_asks_and_does_not_read_is_not_read_either(world, monkeypatch):
    monkeypatch.setattr(outbox, "ANSWER_BYTES_MAX", 200)
    world.wire.direct, world.wire.gate = False, Gate()
    for n in range(99):
        world.wire.ask(n)
    await settle(200)
    assert world.wire.inbox.qsize() > 80
    world.wire.gate.release()
    await settle(600)
    assert world.wire.answered == [*range(99)]


async def test_the_reading_of_one_that_cannot_be_sent_anything_ends(world, monkeypatch):
    monkeypatch.setattr(outbox, "ANSWER_BYTES_MAX", 200)
    world.wire.direct, world.wire.gate = False, Gate()
    for n in range(9):
        world.wire.ask(n)
    world.wire.leave()
    await settle(200)
    assert not world.running.done()
    world.wire.broken = True
    world.wire.gate.release()
    await settle(200)
    assert world.running.done() and world.running.exception() is None
    assert (await world.scope.close()).failures == ()


async def test_over_the_limit_a_request_is_refused_and_a_notification_is_not_answered(
    world, monkeypatch, parked
):
    monkeypatch.setattr(module, "REQUESTS_MAX", 1)
    world.wire.ask(1, "test.park")
    world.wire.ask(None)
    world.wire.ask(2)
    await settle()
    (refused,) = world.wire.sent[1:]
    assert refused["id"] == 2 and refused["error"]["data"]["kind"] == "Overloaded"
    parked.release()
    await settle()
    world.wire.ask(3)
    await settle()
    assert world.wire.answered == [2, 1, 3] and "result" in world.wire.sent[-1]


async def test_a_request_that_was_cancelled_counts_no_more_and_lets_go(world, monkeypatch):
    let_go: list[str] = []

    async def cancelled(_params, call):
        call.later.append(lambda: let_go.append("later"))
        raise asyncio.CancelledError

    serve(monkeypatch, "test.cancelled", cancelled)
    monkeypatch.setattr(module, "REQUESTS_MAX", 1)
    world.wire.ask(1, "test.cancelled")
    await settle()
    world.wire.ask(2)
    await settle()
    assert let_go == ["later"] and "result" in world.wire.sent[-1]


async def test_what_follows_an_answer_comes_after_it(world, monkeypatch):
    async def answer(_params, call):
        call.later.append(lambda: call.peer.publish(event()))
        return {}

    serve(monkeypatch, "test.answer", answer)
    world.wire.ask(1, "test.answer")
    await settle()
    assert [frame.get("id", "event") for frame in world.wire.sent[1:]] == [1, "event"]


# --- the end --------------------------------------------------------------------------------------


async def test_one_that_says_no_more_gets_its_answers(world, parked):
    world.wire.ask(1, "test.park")
    world.wire.leave(listening=True)
    await settle()
    assert not world.running.done()
    parked.release()
    await settle()
    assert world.wire.answered == [1] and world.running.done()


async def test_one_that_says_no_more_gets_what_waits_and_what_is_being_sent(world):
    world.wire.direct, world.wire.gate = False, Gate()
    world.wire.ask(1)
    world.wire.ask(2)
    world.wire.leave(listening=True)
    await settle()
    assert not world.running.done() and world.wire.gate.parked == 1
    world.wire.gate.release()
    await settle()
    assert world.wire.answered == [1, 2] and world.running.done()


async def test_the_last_answer_is_waited_for_while_it_is_being_sent(world):
    world.wire.direct, world.wire.gate = False, Gate()
    world.wire.ask(1)
    await settle()
    assert world.wire.gate.parked == 1
    world.wire.leave(listening=True)
    await settle()
    assert not world.running.done()
    world.wire.gate.release()
    await settle()
    assert world.wire.answered == [1] and world.running.done()


async def test_one_that_says_no_more_is_not_waited_for_without_end(world, parked):
    world.wire.ask(1, "test.park")
    world.wire.leave(listening=True)
    await settle()
    world.clock.advance(LAST_ANSWERS_S)
    await settle()
    assert world.running.done() and parked.parked == 0


async def test_one_that_has_gone_ends_what_runs_for_it(world, parked):
    world.wire.ask(1, "test.park")
    await settle()
    world.wire.leave()
    await settle()
    assert world.running.done() and parked.parked == 0 and parked.passed == 0
    assert world.scope.census() == [] and world.wire.closed


async def test_a_request_that_comes_while_it_ends_fails_nothing(world):
    world.scope.claim("a test")
    world.wire.ask(1)
    await settle()
    assert world.running.done() and world.running.exception() is None
    assert world.wire.closed and world.wire.answered == []
