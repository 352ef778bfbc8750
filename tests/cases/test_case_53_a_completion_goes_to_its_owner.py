"""Case 53: a completion is addressed when its work is started, and only that session gets it."""

from __future__ import annotations

import pytest

from support.jobs import SAID, Latch, job_script, job_tools, say, told
from tenure.testing.clock import settle
from tenure.testing.gateway import open_test_gateway


@pytest.fixture
def latch(tmp_path):
    latch = Latch(tmp_path)
    yield latch
    latch.close()


async def test_a_compacts_while_b_works_and_only_a_is_told(tmp_path, latch):
    script = job_script(latch.command, then=[{"text": "word " * 600}])
    async with open_test_gateway(tmp_path, script, tools=job_tools) as gateway:
        client, _ = await gateway.client()
        stranger, _ = await gateway.client()
        owner = await client.ready_session(auto_approve=True)
        other = await stranger.ready_session(auto_approve=True)
        await say(client, owner, "start")
        for n in range(3):
            await say(client, owner, f"more {n}")
        done = await client.call("session.compress", session_id=owner)
        assert done["status"] == "compressed"

        latch.let_go()
        event = await client.until("background.complete", owner)
        assert event.seq > 0, "it is stored"
        assert event.payload["task_id"] == "b1" and event.payload["returncode"] == 3
        asked = len(script.requests)
        for n in range(5):
            await say(stranger, other, f"other {n}")
        assert told(script, other) == [0] * 5
        assert len(script.requests) == asked + 5, "it starts no turn"

        await say(client, owner, "and now")
        await say(client, owner, "and then")
        assert told(script, owner)[-2:] == [1, 1], "once in its history, for ever"
        (text,) = [m.text for m in script.requests[-1].messages if SAID in m.text]
        assert f"{SAID} (`echo up; read x" in text and "ended with exit code 3" in text
        assert "read its output with the tool background (action read, id b1)" in text
        await settle()
        assert all(e.type != "background.complete" for e in stranger.seen)
        assert await gateway.store.notes(owner) == await gateway.store.notes(other) == []


async def test_the_next_step_of_a_running_turn_is_told(tmp_path, latch):
    wait = {"call": {"name": "background", "arguments": {"action": "list"}}}
    script = job_script(latch.command, then=[[{"gate": "g"}, wait], {"text": "Done."}])
    async with open_test_gateway(tmp_path, script, tools=job_tools) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session(auto_approve=True)
        await say(client, session, "start")
        await client.call("prompt.submit", session_id=session, text="work on")
        await script.gate("g").wait_reached()
        latch.let_go()
        await client.until("background.complete", session)
        script.gate("g").open()
        await client.until("message.complete", session)
        assert told(script, session) == [0, 0, 0, 1]
        history = await client.call("session.history", session_id=session)
        assert [m["role"] for m in history["messages"]][-3:] == ["tool", "system", "assistant"]


async def test_one_that_ends_with_the_last_answer_waits_for_the_next_turn(tmp_path, latch):
    script = job_script(latch.command, then=[[{"text": "Half "}, {"gate": "g"}, {"text": "all."}]])
    async with open_test_gateway(tmp_path, script, tools=job_tools) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session(auto_approve=True)
        await say(client, session, "start")
        await client.call("prompt.submit", session_id=session, text="last words")
        await script.gate("g").wait_reached()
        latch.let_go()
        await client.until("background.complete", session)
        script.gate("g").open()
        await client.until("message.complete", session)
        await settle()
        assert told(script, session) == [0, 0, 0], "the turn does not go on for it"
        await say(client, session, "next")
        assert told(script, session) == [0, 0, 0, 1]
        await client.call("session.undo", session_id=session)
        assert (await client.call("session.undo", session_id=session))["text"] == "last words"


@pytest.mark.parametrize("how", ["tool", "wire"])
async def test_what_somebody_stops_is_no_news(tmp_path, latch, how):
    stop = {"call": {"name": "background", "arguments": {"action": "stop", "id": "b1"}}}
    script = job_script(latch.command, then=[stop, {"text": "Stopped."}])
    async with open_test_gateway(tmp_path, script, tools=job_tools) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session(auto_approve=True)
        await say(client, session, "start")
        if how == "tool":
            await say(client, session, "stop")
        else:
            assert await client.call("process.stop", session_id=session) == {"killed": 1}
        await settle()
        assert await gateway.store.notes(session) == []
        assert all(e.type != "background.complete" for e in client.seen)
