"""Case 36: what runs is marked before a stop waits for anything; a kill in any phase finds it."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import pytest

from support.restarts import Restarts
from tenure.models.script import Script
from tenure.sessions.recovery import GO_ON
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.tools import scripted_tool
from tenure.testing.waiting import until

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


async def test_what_begins_during_the_stop_goes_on_too(tmp_path):
    """Openings that were on their way begin turns while others are still waited for."""
    restarts = Restarts(tmp_path)
    script = Script([[{"gate": "never"}]], loop=True)
    async with restarts.boot(script) as gateway:
        client, _ = await gateway.client()
        for text in ("first", "second"):
            session = await client.ready_session(auto_approve=True)
            await client.call("prompt.submit", session_id=session, text=text)
        await until(lambda: len(restarts.rows("SELECT 1 FROM turns WHERE state = 'running'")) == 2)
        restarts.kill()
    tool = scripted_tool("scripted", gate=(tool_gate := Gate()))
    script = Script([CALL], loop=True)
    async with restarts.boot(script, recover=False, tools=lambda *_: (tool,)) as gateway:
        gates, reads, turns = [Gate(), Gate()], Counter(), gateway.store.turns

        async def held(session_id: str):
            reads[session_id] += 1
            if reads[session_id] == 2:  # of its opening
                await gates[list(reads).index(session_id)].park()
            return await turns(session_id)

        gateway.store.turns = held
        recovering = asyncio.create_task(restarts.recover(gateway))
        for gate in gates:
            await gate.wait_parked()
        drain = asyncio.create_task(gateway.sessions.drain("gateway ended", 60.0))
        await settle()
        gates[0].release()
        await tool_gate.wait_parked()  # it runs, and its session is live, unlike the other
        gates[1].release()
        assert await drain is True
        await recovering
        restarts.kill()
    async with restarts.boot(Script([{"text": "went on"}], loop=True)) as gateway:
        await until(lambda: not any(s.current or s.queued for s in gateway.sessions.live()))
    ends = restarts.rows(
        "SELECT prompt, state FROM turns WHERE id NOT IN (SELECT continues FROM turns)"
    )
    assert sorted(set(ends)) == [(GO_ON, "completed")] and len(ends) == 2
