"""Case 36: what runs is marked before a stop waits for anything; a kill in any phase finds it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from support.restarts import Restarts, until
from tenure.models.script import Script
from tenure.sessions.recovery import GO_ON
from tenure.testing.gates import Gate
from tenure.testing.tools import scripted_tool

CALL = {"call": {"name": "scripted", "arguments": {"text": "effect"}}}


@asynccontextmanager
async def stopping(restarts: Restarts, *, deaf: bool, stuck: bool):
    """A gateway that stops with one turn in a tool; the phases are held where it is told."""
    tool_gate, release_gate = Gate(), Gate()
    tool = scripted_tool("scripted", gate=tool_gate, deaf=deaf)
    async with restarts.boot(Script([CALL]), tools=lambda *_: (tool,)) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session(auto_approve=True)
        await client.call("prompt.submit", session_id=session, text="do it")
        await tool_gate.wait_parked()
        if stuck:
            gateway.sessions.get(session).scope.own("thing", None, lambda _: release_gate.park())
        drain = asyncio.create_task(gateway.sessions.drain("gateway ended", 60.0))
        try:
            yield session, release_gate, drain
        finally:
            tool_gate.release()
            release_gate.release()
            await drain


async def goes_on_once(restarts: Restarts, cause: str) -> None:
    """The next start finds the turn interrupted and goes on with it, as one attempt."""
    script = Script([{"text": "went on"}], loop=True)
    async with restarts.boot(script) as gateway:
        (live,) = gateway.sessions.live()
        await until(lambda: live.current is None and not live.queued)
        assert [r.messages[-1].text for r in script.requests] == [GO_ON]
        rows = await gateway.store.history(live.id)
        assert [r.message.asks for r in rows if r.message.role == "user"] == [True, False]
        told = script.requests[0].messages[-2].text
        assert "unknown" in told.lower(), "the model is told that the call's outcome is unknown"
    assert restarts.turns() == [("do it", "interrupted", cause), (GO_ON, "completed", "stop")]


async def test_killed_while_the_turn_ends(tmp_path):
    restarts = Restarts(tmp_path)
    async with stopping(restarts, deaf=True, stuck=False):
        await until(lambda: restarts.rows("SELECT 1 FROM turns WHERE marked_at > 0"))
        assert restarts.turns() == [("do it", "running", "")]
        restarts.kill()
    await goes_on_once(restarts, "crash")


async def test_killed_while_resources_are_released(tmp_path):
    restarts = Restarts(tmp_path)
    async with stopping(restarts, deaf=False, stuck=True) as (_, release_gate, _drain):
        await release_gate.wait_parked()
        await until(lambda: restarts.turns() == [("do it", "interrupted", "shutdown")])
        assert restarts.rows("SELECT status FROM sessions") == [("open",)]
        restarts.kill()
    await goes_on_once(restarts, "shutdown")


async def test_killed_after_the_last_write(tmp_path):
    restarts = Restarts(tmp_path)
    async with stopping(restarts, deaf=False, stuck=False) as (*_, drain):
        assert await drain is True
        restarts.kill()
    await goes_on_once(restarts, "shutdown")


@pytest.mark.parametrize("idle", [True, False])
async def test_a_stop_marks_what_runs_and_nothing_else(tmp_path, idle):
    restarts = Restarts(tmp_path)
    async with restarts.boot(Script([{"text": "done"}, {"gate": "never"}])) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session()
        await client.call("prompt.submit", session_id=session, text="one")
        await client.until("message.complete", session)
        if not idle:
            await client.call("prompt.submit", session_id=session, text="two")
        await gateway.sessions.drain("gateway ended", 5.0)
    marked = restarts.rows("SELECT prompt FROM turns WHERE marked_at > 0")
    assert marked == ([] if idle else [("two",)])
