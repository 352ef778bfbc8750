"""Case 51: a turn with two hundred megabytes of output leaves the loop to everybody else."""

from __future__ import annotations

from tenure.clock import SystemClock
from tenure.models.script import Script
from tenure.testing.gateway import open_test_gateway
from tenure.tools.registry import tools_for

FLOOD = "yes 'a line of output that means nothing' | head -c 200000000"


async def test_others_are_answered_all_the_time(tmp_path):
    call = {"call": {"name": "shell", "arguments": {"command": FLOOD, "timeout_s": 100}}}
    async with open_test_gateway(
        tmp_path, Script([[call], {"text": "Done."}]), tools=tools_for, clock=SystemClock()
    ) as gw:
        client, _ = await gw.client()
        other, _ = await gw.client()
        sid = await client.ready_session(auto_approve=True)
        mine = await other.ready_session()
        await client.call("prompt.submit", session_id=sid, text="flood")
        await client.until("tool.start", sid)
        session, answered = gw.sessions.get(sid), 0
        while session.current is not None:
            await other.call("session.status", session_id=mine)
            answered += 1
        assert answered > 200, "between any two chunks the others have their turn"
        (_, _, result, _) = await gw.store.history(sid)
        assert len(result.message.text) < 100_000 and "a line of output" in result.message.text


async def test_a_model_that_never_pauses_leaves_the_loop_to_others(tmp_path):
    thinking = [{"reasoning": "x" * 10_000}] * 3_000
    async with open_test_gateway(tmp_path, Script([[*thinking, {"text": "Done."}]])) as gw:
        client, _ = await gw.client()
        other, _ = await gw.client()
        sid, mine = await client.ready_session(), await other.ready_session()
        await client.call("session.detach", session_id=sid)
        session, answered = gw.sessions.get(sid), 0
        await client.call("prompt.submit", session_id=sid, text="think")
        while session.current is not None:
            await other.call("session.status", session_id=mine)
            answered += 1
        assert answered > 20
