"""The list of steps: kept whole, stored with the session, shown to clients."""

from __future__ import annotations

import pytest

from support.restarts import Restarts
from tenure.errors import StoreFull
from tenure.models.script import Script
from tenure.testing.gateway import open_test_gateway
from tenure.tools.todo import ITEMS_MAX, Todo

FIRST = [{"content": "look", "status": "in_progress"}, {"content": "mend"}]
LATER = [{"content": "look", "status": "completed"}, {"content": "mend", "status": "in_progress"}]
SHOWN = [{"content": "look", "status": "in_progress"}, {"content": "mend", "status": "pending"}]


def tools(_config, _small):
    return (Todo(),)


def keeps(items):
    return {"call": {"name": "todo", "arguments": {"items": items}}}


async def say(client, session):
    await client.call("prompt.submit", session_id=session, text="go")
    await client.until("message.complete")


async def test_it_is_shown_and_survives_a_restart(tmp_path):
    restarts = Restarts(tmp_path)
    script = Script([keeps(FIRST), {"text": "One."}, keeps(LATER), {"text": "Two."}])
    async with restarts.boot(script, tools=tools) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session()
        await say(client, session)
        (event,) = [e for e in client.seen if e.type == "todo.changed"]
        assert (event.payload, event.seq > 0) == ({"items": SHOWN}, True)
        (done,) = [e.payload for e in client.seen if e.type == "tool.complete"]
        assert done["todos"] == [{"id": "1", **SHOWN[0]}, {"id": "2", **SHOWN[1]}]
        assert done["summary"] == "0 of 2 done"
        await say(client, session)
        restarts.kill()
    async with restarts.boot(Script([]), tools=tools) as gateway:
        client, _ = await gateway.client()
        resumed = await client.call("session.resume", session_id=session)
        assert resumed["info"]["todo"] == LATER


async def test_a_list_that_is_not_stored_is_not_shown(tmp_path):
    script = Script([[{"gate": "g"}, keeps(FIRST)], {"text": "Sorry."}])
    async with open_test_gateway(tmp_path, script, tools=tools) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session()
        await client.call("prompt.submit", session_id=session, text="go")
        await script.gate("g").wait_reached()
        gateway.store.fail(StoreFull("No space is left."), after=2)
        script.gate("g").open()
        await client.until("message.complete")
        assert [e for e in client.seen if e.type == "todo.changed"] == []
        assert gateway.sessions.get(session).info()["todo"] == []


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ([{"content": "a", "status": "in_progress"}] * 2, "More than one step is in_progress"),
        ([{"content": "a", "status": "soon"}], "status"),
        ([{"content": ""}], "content"),
        ([{"content": "a"}] * (ITEMS_MAX + 1), "items"),
    ],
)
async def test_a_wrong_list_changes_nothing(tmp_path, items, told):
    script = Script([keeps(FIRST), keeps(items), {"text": "Sorry."}])
    async with open_test_gateway(tmp_path, script, tools=tools) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session()
        await say(client, session)
        result = [m for m in script.requests[-1].messages if m.role == "tool"][-1]
        assert result.is_error and told in result.text
        assert gateway.sessions.get(session).info()["todo"] == SHOWN
