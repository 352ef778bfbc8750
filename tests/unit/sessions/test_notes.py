"""What a model is to be told: once, and only what is stored."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import StoreFull
from tenure.models.script import Script
from tenure.sessions.journal import TurnRecorder
from tenure.sessions.turns import LiveTurn
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.store import MemoryStore

FULL = StoreFull("No space is left.")
OVER = ("subagent.complete", {"id": "a1", "summary": "found"})


@pytest.fixture
async def held(tmp_path):
    async with open_test_gateway(tmp_path, Script([])) as gateway:
        client, _ = await gateway.client()
        yield gateway, gateway.sessions.get(await client.ready_session())


def turn_of(session):
    turn = LiveTurn("t", 1, "go", 0.0)
    turn.recorder = TurnRecorder(session.journal, turn.id, has_row=False)
    return turn


async def test_what_was_not_stored_is_not_told(held):
    gateway, session = held
    gateway.store.fail(FULL)
    assert await session.notes.report("found", OVER, ()) == ()
    gateway.store.fail(FULL)
    commit = session.notes.tell("approved", [], [])
    await asyncio.wait({commit})
    await settle()
    assert commit.exception() is FULL
    assert session.notes.deliver(turn_of(session)) is None


async def test_what_was_read_is_not_told_again(held):
    gateway, session = held
    (inner,) = await session.notes.report("found below", OVER, ())
    (outer,) = await session.notes.report("found", OVER, (inner,))
    assert [row.id for row in await gateway.store.notes(session.id)] == [outer]
    session.notes.taken((outer,))
    assert session.notes.deliver(turn_of(session)) is None


async def test_who_leaves_while_a_report_is_stored_takes_nothing_along(tmp_path):
    async with open_test_gateway(tmp_path, Script([]), store=SlowStore()) as gateway:
        client, _ = await gateway.client()
        session = gateway.sessions.get(await client.ready_session())
        gateway.store.block()
        reporting = asyncio.create_task(session.notes.report("found", OVER, ()))
        await settle()
        reporting.cancel()
        await settle()
        gateway.store.unblock()
        await settle()
        assert reporting.cancelled()
        assert [row.text for row in await gateway.store.notes(session.id)] == ["found"]
        assert (await client.until("subagent.complete")).payload["summary"] == "found"
        telling = session.notes.deliver(turn_of(session))
        assert telling is not None, "the next step tells it"
        await telling


class SlowStore(MemoryStore):
    """A store whose commits wait between `block` and `unblock`."""

    def block(self) -> None:
        self._gate = Gate()

    def unblock(self) -> None:
        gate, self._gate = self._gate, None
        gate.release()


async def test_a_turn_that_is_over_is_told_nothing(held):
    _, session = held
    await session.notes.tell("approved", [], [])
    turn = turn_of(session)
    turn.recorder.fence()
    assert session.notes.deliver(turn) is None
    telling = session.notes.deliver(turn_of(session))
    assert telling is not None, "the next one is told"
    await telling


async def test_a_long_command_is_shortened(held):
    gateway, session = held
    session.notes.process_ended("b1", "make " * 10_000, 0)
    await settle()
    (row,) = await gateway.store.notes(session.id)
    assert row.text.startswith("Background process b1 (`make make") and len(row.text) < 500
