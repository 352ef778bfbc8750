"""Who wanted a change may leave while it is stored: what is stored is told all the same."""

from __future__ import annotations

import asyncio

import pytest

from support.stores import SlowStore
from tenure.models.script import Script
from tenure.sessions.facts import keep_todo, retitle
from tenure.sessions.planning import approve, edit
from tenure.testing.clock import settle
from tenure.testing.gateway import open_test_gateway
from tenure.tools.base import TodoItem

OVER = ("subagent.complete", {"id": "a1", "summary": "found"})
CHANGES = {
    "title": lambda session: retitle(session, "named"),
    "plan": lambda session: edit(session, "Two.", 1),
    "approval": lambda session: approve(session, "owner", 1),
    "report": lambda session: session.notes.report("found", OVER, ()),
    "todo": lambda session: keep_todo(session, (TodoItem("look"),)),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_who_leaves_while_a_change_is_stored_takes_no_event_along(tmp_path, name):
    async with open_test_gateway(tmp_path, Script([]), store=SlowStore()) as gateway:
        client, _ = await gateway.client()
        session = gateway.sessions.get(await client.ready_session(plan=True))
        await edit(session, "One.", 0)
        before = session.journal.last_seq
        gateway.store.block()
        changing = asyncio.create_task(CHANGES[name](session))
        await settle()
        changing.cancel()
        await settle()
        gateway.store.unblock()
        await settle(60)
        assert changing.cancelled()
        events = await gateway.store.events(session.id, epoch=1, after_seq=0, limit=100)
        assert session.journal.last_seq == len(events) == before + 1
