"""Going back in a session: what goes with it, and what comes before what."""

from __future__ import annotations

import asyncio

import pytest

from support.pictures import b64
from support.stores import SlowStore
from tenure.conversation import Message
from tenure.errors import InternalError, SessionClosing, StoreFull
from tenure.models.script import Script
from tenure.sessions.rewriting import _starts, undo
from tenure.store.base import ItemRow
from tenure.testing.clock import settle
from tenure.testing.gateway import open_test_gateway


@pytest.fixture
async def talked(tmp_path):
    """A gateway, its client, and a session in which one thing was said."""
    script = Script([{"text": f"Answer {number}."} for number in range(1, 5)])
    async with open_test_gateway(tmp_path, script, store=SlowStore()) as gateway:
        client, _ = await gateway.client()
        session = gateway.sessions.get(await client.ready_session())
        await client.call("prompt.submit", session_id=session.id, text="first")
        await client.until("message.complete")
        yield gateway, client, session


async def turn_of(gateway, session):
    return (await gateway.store.history(session.id))[0].turn_id


def test_a_turn_begins_with_its_first_prompt():
    def row(seq, turn, role, **facts):
        return ItemRow(seq, turn, "message", Message(role, "x", **facts))

    rows = [
        row(1, "a", "user"), row(2, "a", "assistant"), row(3, "a", "user"),
        row(4, "b", "user", note=True), row(5, "b", "assistant"),
        row(6, "c", "user"), row(7, "", "user"), row(8, "", "assistant"), row(9, "", "user"),
    ]  # fmt: skip
    assert _starts(rows) == [(1, "a"), (6, "c"), (7, ""), (9, "")], "what is steered begins none"


async def test_other_words_run_before_what_came_meanwhile(talked):
    gateway, client, session = talked
    named = {"session_id": session.id, "turn_id": await turn_of(gateway, session)}
    gateway.store.block()
    editing = asyncio.create_task(client.call("prompt.edit", text="won", **named))
    await settle(50)
    waiting = asyncio.create_task(client.call("prompt.submit", session_id=session.id, text="later"))
    await settle(50)
    gateway.store.unblock()
    await asyncio.gather(editing, waiting)
    for _ in range(2):
        await client.until("message.complete")
    texts = [row.message.text for row in await gateway.store.history(session.id)]
    assert texts == ["won", "Answer 2.", "later", "Answer 3."]


async def test_other_words_that_come_again_meanwhile_are_the_same(talked):
    gateway, client, session = talked
    named = {"session_id": session.id, "turn_id": await turn_of(gateway, session), "key": "k"}
    gateway.store.block()
    asked = []
    for _ in range(2):  # whoever asked has lost the answer, and asks again
        asked.append(asyncio.create_task(client.call("prompt.edit", text="won", **named)))
        await settle(50)
    gateway.store.unblock()
    first, second = await asyncio.gather(*asked)
    assert first["turn_id"] == second["turn_id"]
    await client.until("message.complete")


async def test_files_that_wait_are_kept_where_other_words_are_not_stored(talked):
    gateway, client, session = talked
    sent = {"data_url": b64(b"text"), "name": "a.txt"}
    await client.call("file.attach", session_id=session.id, **sent)
    named = {"session_id": session.id, "turn_id": await turn_of(gateway, session)}
    gateway.store.fail(StoreFull("No space is left."))
    with pytest.raises(StoreFull):
        await client.call("prompt.edit", text="won", **named)
    assert [upload.name for upload in session.draft] == ["a.txt"]


async def test_a_session_that_closes_is_not_rewritten(talked):
    gateway, _, session = talked
    before = await gateway.store.history(session.id)
    session.scope.claim("closing")
    with pytest.raises(SessionClosing):
        await undo(session)
    assert await gateway.store.history(session.id) == before


async def test_a_fault_of_ours_is_told_with_an_id(talked, caplog):
    gateway, _, session = talked
    gateway.store.fail(ZeroDivisionError("a bug"))
    with pytest.raises(InternalError, match="tenure logs err_"):
        await undo(session)
    assert session.status == "idle"
