"""Case 31: whatever hangs on after a stop, the next prompt runs within a bound."""

from __future__ import annotations

import pytest

from tenure.models.script import Script
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.tools import scripted_tool

CALL = {"call": {"name": "slow", "arguments": {}}}


@pytest.mark.parametrize("what", ["a tool that ignores its cancel", "an end that never returns"])
@pytest.mark.timeout(20)  # without its guard it would hang
async def test_the_next_prompt_runs_and_the_late_result_is_dropped(tmp_path, what):
    gate = Gate()
    deaf = what.startswith("a tool")
    tool = scripted_tool("slow", gate=gate if deaf else None, deaf=deaf)
    script = Script([[CALL, {"text": "…"}], [{"gate": "m"}, {"text": "late"}], {"text": "Next."}])
    if deaf:
        script = Script([[CALL], {"text": "Next."}])
    async with open_test_gateway(tmp_path, script, tools=lambda _c, _s: (tool,)) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        session = gw.sessions.get(sid)
        await client.call("prompt.submit", session_id=sid, text="go")
        if deaf:
            await gate.wait_parked()
        else:
            await script.gate("m").wait_reached()
            stuck = gate.park

            async def release(_value):
                await stuck()

            session.current.scope.own("helper", "stuck", release, grace_s=1e9)
        await client.call("session.interrupt", session_id=sid)
        await settle()
        gw.ports.clock.advance(5.1)
        end = (await client.until("message.complete", sid)).payload
        assert end["state"] == "interrupted"
        await client.call("prompt.submit", session_id=sid, text="and now?")
        end = (await client.until("message.complete", sid)).payload
        assert (end["state"], end["text"]) == ("completed", "Next.")
        stored = await gw.store.history(sid)
        gate.release()
        await settle(100)
        assert await gw.store.history(sid) == stored
