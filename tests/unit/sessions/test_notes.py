"""What a model is to be told: once, and only what is stored."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import StoreFull
from tenure.models.script import Script
from tenure.sessions import notes
from tenure.sessions.journal import TurnRecorder
from tenure.sessions.turns import LiveTurn
from tenure.store.base import InsertNote, NoteRow
from tenure.testing.clock import settle
from tenure.testing.gateway import open_test_gateway

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


async def test_a_turn_that_is_over_is_told_nothing(held):
    _, session = held
    await session.notes.tell("approved", [], [])
    turn = turn_of(session)
    turn.recorder.fence()
    assert session.notes.deliver(turn) is None
    telling = session.notes.deliver(turn_of(session))
    assert telling is not None, "the next one is told"
    await telling


async def test_an_output_of_before_is_not_that_of_a_process_of_now(held, monkeypatch):
    """Their ids begin anew."""
    gateway, session = held
    ended = [{"process_id": "b1", "running": False}]
    monkeypatch.setattr(notes, "list_background", lambda _state: ended)
    before = NoteRow("note_old", session.id, "b1", "The old one ended.", 0.0)
    await gateway.store.write(InsertNote(before))
    session.notes.load([before])
    session.notes.process_ended("b1", "make", 0)
    await settle()
    await session.notes.deliver(turn_of(session))
    old, new = session.journal.items[-1].message.text.splitlines()
    assert old == "[The old one ended; its output is not kept any more.]"
    assert "read its output with the tool background (action read, id b1)" in new


@pytest.mark.parametrize(
    ("code", "how"), [(0, "with exit code 0"), (3, "with exit code 3"), (-15, "by SIGTERM")]
)
async def test_a_process_ends_with_a_code_or_by_a_signal(held, code, how):
    gateway, session = held
    session.notes.process_ended("b1", "make", code)
    await settle()
    (row,) = await gateway.store.notes(session.id)
    assert row.text.endswith(f"ended {how}")


async def test_a_long_command_is_shortened(held):
    gateway, session = held
    session.notes.process_ended("b1", "make " * 10_000, 0)
    await settle()
    (row,) = await gateway.store.notes(session.id)
    assert row.text.startswith("Background process b1 (`make make") and len(row.text) < 500
