"""Case 38: recovery starts from a fresh mark, never from the shape or age of a history."""

from __future__ import annotations

from support.restarts import Restarts
from tenure.conversation import Message, ToolCall
from tenure.models.script import Script
from tenure.store.base import AppendItem, InsertTurn, ItemRow, TurnRow

SHAPES = (
    Message("user", "work"),
    Message("assistant", "", tool_calls=(ToolCall("c1", "shell", "{}"),)),
    Message("tool", "half done", tool_call_id="c1"),
)


async def stored_session(restarts: Restarts) -> str:
    """A session whose last entry is a tool's result, and whose turn has ended."""
    async with restarts.boot(Script([])) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session()
        turn = TurnRow("t1", session, 1, "completed", "work", 1.0, cause="stop")
        items = (
            AppendItem(session, ItemRow(n, "t1", "message", m)) for n, m in enumerate(SHAPES, 1)
        )
        await gateway.store.write(InsertTurn(turn), *items)
    return session


async def test_a_history_that_looks_unfinished_starts_nothing(tmp_path):
    restarts = Restarts(tmp_path)
    session = await stored_session(restarts)
    script = Script([{"text": "hello yourself"}])
    async with restarts.boot(script) as gateway:
        assert gateway.sessions.live() == []
        client, _ = await gateway.client()
        await client.call("session.resume", session_id=session)
        await client.call("prompt.submit", session_id=session, text="hello")
        await client.until("message.complete", session)
        assert [request.messages[-1].text for request in script.requests] == ["hello"]


async def test_a_mark_that_is_too_old_ends_in_a_notice(tmp_path):
    restarts = Restarts(tmp_path)
    async with restarts.boot(Script([{"gate": "never"}])) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session()
        await client.call("prompt.submit", session_id=session, text="work")
        restarts.kill()
    restarts.last_seen = restarts.clock.wall()
    restarts.clock.advance(3601)
    script = Script([{"text": "never"}])
    async with restarts.boot(script) as gateway:
        assert gateway.sessions.live() == [] and script.requests == []
        row = await gateway.store.session(session)
        assert row.status == "closed" and "1.0 hours ago does not go on" in row.reason
        assert await gateway.store.unfinished() == []
    assert restarts.turns() == [("work", "interrupted", "crash")]
    ((_, count),) = restarts.rows(
        "SELECT type, count(*) FROM events WHERE type = 'session.notice' GROUP BY type"
    )
    assert count == 1


async def test_a_turn_that_a_person_ended_while_the_gateway_stopped_is_over(tmp_path):
    restarts = Restarts(tmp_path)
    async with restarts.boot(Script([{"gate": "never"}])) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session()
        await client.call("prompt.submit", session_id=session, text="work")
        gateway.sessions.get(session).interrupt("user")
        await gateway.sessions.drain("gateway ended", 5.0)
    assert restarts.turns() == [("work", "interrupted", "user")]
    script = Script([{"text": "never"}])
    async with restarts.boot(script) as gateway:
        assert gateway.sessions.live() == [] and await gateway.store.unfinished() == []
