"""Case 54: a completion is stored until its session was told, and told once; looking consumes nothing."""

from __future__ import annotations

import pytest

from support.jobs import SAID, Latch, job_script, job_tools, say, told
from support.restarts import Restarts
from tenure.models.script import Script
from tenure.testing.gateway import open_test_gateway
from tenure.testing.waiting import until


@pytest.fixture
def latch(tmp_path):
    latch = Latch(tmp_path)
    yield latch
    latch.close()


async def ended(client, gateway, latch) -> str:
    """A session with a process that has ended by itself, which the model was not told."""
    session = await client.ready_session(auto_approve=True)
    await say(client, session, "start")
    latch.let_go()
    await client.until("background.complete", session)
    assert len(await gateway.sessions.get(session).ports.store.notes(session)) == 1
    return session


async def test_polling_consumes_nothing(tmp_path, latch):
    poll = {"call": {"name": "background", "arguments": {"action": "read", "id": "b1"}}}
    script = job_script(latch.command, then=[poll, {"text": "Polled."}, {"text": "Later."}])
    async with open_test_gateway(tmp_path, script, tools=job_tools) as gateway:
        client, _ = await gateway.client()
        session = await ended(client, gateway, latch)
        for _ in range(3):
            (row,) = (await client.call("process.list", session_id=session))["processes"]
            assert row["returncode"] == 3
        assert len(await gateway.store.notes(session)) == 1
        await say(client, session, "poll")
        await say(client, session, "and")
        assert told(script, session)[2:] == [1, 1, 1]
        assert await gateway.store.notes(session) == []


async def test_it_survives_an_unload_and_is_not_told_again_after_another(tmp_path, latch):
    restarts = Restarts(tmp_path)
    script = job_script(latch.command)
    async with restarts.boot(script, tools=job_tools) as gateway:
        client, _ = await gateway.client()
        session = await ended(client, gateway, latch)
        for expected in (1, 1):
            live = gateway.sessions.get(session)
            gateway.sessions.unload(live, "a test")
            await until(lambda: gateway.sessions.find(session) is None)
            assert len(script.requests) == 2 or expected, "nothing runs by itself"
            await client.call("session.resume", session_id=session)
            await say(client, session, "go on")
            assert told(script, session)[-1] == expected
        (text,) = [m.text for m in script.requests[-1].messages if SAID in m.text]
        assert "its output is not kept any more" in text
        assert await gateway.sessions.get(session).ports.store.notes(session) == []


@pytest.mark.parametrize("when", ["before", "after"])
async def test_it_survives_a_kill_before_and_after_it_is_told(tmp_path, latch, when):
    restarts = Restarts(tmp_path)
    async with restarts.boot(job_script(latch.command), tools=job_tools) as gateway:
        client, _ = await gateway.client()
        session = await ended(client, gateway, latch)
        if when == "after":
            await say(client, session, "go on")
        restarts.kill()
    script = Script([{"text": "Fine."}], loop=True)
    async with restarts.boot(script, tools=job_tools) as gateway:
        client, _ = await gateway.client()
        await client.call("session.resume", session_id=session)
        assert script.requests == [], "it starts no turn"
        await say(client, session, "go on")
        await say(client, session, "and on")
        assert told(script, session) == [1, 1]


async def test_a_turn_that_is_killed_at_its_first_step_has_been_told_once(tmp_path, latch):
    """The entry and the mark are one write: there is no moment with one and not the other."""
    restarts = Restarts(tmp_path)
    held = job_script(latch.command, then=[[{"gate": "never"}]])
    async with restarts.boot(held, tools=job_tools) as gateway:
        client, _ = await gateway.client()
        session = await ended(client, gateway, latch)
        await client.call("prompt.submit", session_id=session, text="go on")
        await held.gate("never").wait_reached()
        restarts.kill()
    script = Script([{"text": "Fine."}], loop=True)
    async with restarts.boot(script, tools=job_tools) as gateway:
        client, _ = await gateway.client()
        await client.call("session.resume", session_id=session)
        await until(lambda: gateway.sessions.get(session).current is None)
        await say(client, session, "and on")
        assert told(script, session) == [1, 1]


async def test_a_write_that_fails_lets_it_wait(tmp_path, latch):
    from tenure.errors import StoreFull

    script = job_script(latch.command)
    async with open_test_gateway(tmp_path, script, tools=job_tools) as gateway:
        client, _ = await gateway.client()
        session = await ended(client, gateway, latch)
        gateway.store.fail(StoreFull("No space is left."), after=1)  # the prompt is stored
        await say(client, session, "go on")
        assert len(await gateway.store.notes(session)) == 1
        await say(client, session, "go on")
        assert told(script, session)[-1] == 1
        assert await gateway.store.notes(session) == []
