"""Case 13: recovery goes through the same opening as everybody else, and starts work once."""

from __future__ import annotations

import asyncio

import msgspec

from support.restarts import Restarts
from tenure.models.script import Script
from tenure.protocol.events import SessionNotice
from tenure.sessions.recovery import GO_ON, Recovery
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.tools import scripted_tool
from tenure.testing.waiting import until


async def cut_off_in_a_tool(restarts: Restarts) -> str:
    """A gateway that is killed while a tool runs whose effect has happened; the session."""
    gate = Gate()
    tool = scripted_tool("scripted", gate=gate)
    call = {"call": {"name": "scripted", "arguments": {"text": "effect"}}}
    async with restarts.boot(Script([call]), tools=lambda *_: (tool,)) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session(auto_approve=True)
        await client.call("prompt.submit", session_id=session, text="do it")
        await gate.wait_parked()
        restarts.kill()
        gate.release()
    return session


async def test_a_resume_a_prompt_and_a_second_pass_meet_one_opening(tmp_path):
    restarts = Restarts(tmp_path)
    session = await cut_off_in_a_tool(restarts)
    tool = scripted_tool("scripted")
    script = Script([{"text": "went on"}, {"text": "second"}])
    async with restarts.boot(script, recover=False, tools=lambda *_: (tool,)) as gateway:
        gateway.picker.gates["model"] = gate = Gate()
        passes = [gateway.recovery.begin()]
        await gate.wait_parked()
        passes.append(Recovery(gateway.root.child("again"), gateway.sessions).begin())
        client, _ = await gateway.client()
        resumed = await client.call("session.resume", session_id=session)
        receipt = await client.call("prompt.submit", session_id=session, text="hello")
        assert receipt["status"] == "queued"
        gate.release()
        for _ in range(2):
            await client.until("message.complete", session)
        await asyncio.wait(passes)
        assert gateway.picker.picks == 1, "one agent"
        asked = [[m.text for m in r.messages] for r in script.requests]
        assert [texts[-1] for texts in asked] == [GO_ON, "hello"], "the recovered turn comes first"
        assert "Outcome unknown" in asked[0][-2]
        assert tool.effects == [], "no call is repeated"
        assert resumed["messages"][0]["text"] == "do it"
    assert restarts.turns() == [
        ("do it", "interrupted", "crash"), (GO_ON, "completed", "stop"),
        ("hello", "completed", "stop"),
    ]  # fmt: skip


async def test_whoever_comes_while_it_is_opened_waits_for_that_opening(tmp_path):
    restarts = Restarts(tmp_path)
    session = await cut_off_in_a_tool(restarts)
    script = Script([{"text": "went on"}], loop=True)
    async with restarts.boot(script, recover=False) as gateway:
        gate, read = Gate(), gateway.store.history

        async def parked(session_id):
            await gate.park()
            return await read(session_id)

        gateway.store.history = parked
        passes = [gateway.recovery.begin()]
        await gate.wait_parked()
        passes.append(Recovery(gateway.root.child("again"), gateway.sessions).begin())
        client, _ = await gateway.client()
        resume = asyncio.ensure_future(client.call("session.resume", session_id=session))
        await settle(100)
        assert gate.parked == 1, "one opening"
        gate.release()
        await resume
        await client.until("message.complete", session)
        await asyncio.wait(passes)
        assert gateway.picker.picks == 1 and len(script.requests) == 1
    assert [state for _, state, _ in restarts.turns()] == ["interrupted", "completed"]


async def test_what_became_of_the_turn_is_told_in_the_new_log(tmp_path):
    restarts = Restarts(tmp_path)
    session = await cut_off_in_a_tool(restarts)
    async with restarts.boot(Script([{"text": "went on"}])) as gateway:
        live = gateway.sessions.get(session)
        await until(lambda: restarts.turns()[-1] == (GO_ON, "completed", "stop"))
        rows = await gateway.store.events(session, epoch=live.journal.epoch, after_seq=0, limit=9)
        told = [(row.type, msgspec.json.decode(row.payload)) for row in rows]
        kinds = [kind for kind, _ in told]
        assert kinds[:3] == ["tool.complete", "message.complete", "session.notice"]
        assert told[0][1]["outcome"] == "unknown" and told[0][1]["name"] == "scripted"
        assert (told[1][1]["state"], told[1][1]["cause"]) == ("interrupted", "crash")
        notice = msgspec.convert(told[2][1], SessionNotice)
        assert (notice.kind, "attempt 1 of 3" in notice.text) == ("go_on", True)
        assert kinds[3:] == ["message.start", "message.complete"]
        assert (notice.turn_id, notice.continued_by) == (
            told[1][1]["turn_id"],
            told[3][1]["turn_id"],
        )
        assert [row.seq for row in rows] == [1, 2, 3, 4, 5]


async def test_a_person_who_opens_it_first_takes_the_work_up_and_recovery_leaves_it(tmp_path):
    restarts = Restarts(tmp_path)
    session = await cut_off_in_a_tool(restarts)
    script = Script([{"text": "went on"}, {"text": "never"}])
    async with restarts.boot(script, recover=False) as gateway:
        client, _ = await gateway.client()
        await client.call("session.resume", session_id=session)
        await client.until("message.complete", session)
        await restarts.recover(gateway)
        assert len(script.requests) == 1
    assert [state for _, state, _ in restarts.turns()] == ["interrupted", "completed"]
