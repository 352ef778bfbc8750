"""Case 30, in a session: a turn that ignores its interrupt is fenced off; the next is untouched."""

from __future__ import annotations

import pytest

from tenure.models.script import Script
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.tools import scripted_tool


@pytest.mark.timeout(20)  # without its guard it would hang
async def test_the_next_turn_runs_while_the_old_one_hangs(tmp_path):
    gate = Gate()
    tool = scripted_tool("slow", gate=gate, deaf=True)
    script = Script([[{"call": {"name": "slow", "arguments": {}}}], {"text": "second"}])
    async with open_test_gateway(tmp_path, script, tools=lambda _c, _s: (tool,)) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="one")
        await gate.wait_parked()
        assert await client.call("session.interrupt", session_id=sid) == {"status": "interrupted"}
        await settle()
        gw.ports.clock.advance(5.1)
        done = await client.until("message.complete", sid)
        assert (done.payload["state"], done.payload["cause"]) == ("interrupted", "user")
        await client.call("prompt.submit", session_id=sid, text="two")
        done = await client.until("message.complete", sid)
        assert (done.payload["state"], done.payload["text"]) == ("completed", "second")
        before = await gw.store.history(sid)
        usage = await client.call("session.usage", session_id=sid)
        events = await gw.store.events(sid, epoch=1, after_seq=0, limit=100)
        gate.release()
        await settle(200)
        assert await gw.store.history(sid) == before
        assert await gw.store.events(sid, epoch=1, after_seq=0, limit=100) == events
        assert await client.call("session.usage", session_id=sid) == usage, "it ended once"
        assert len(script.requests) == 2, "the old turn asks the model nothing more"
        assert [t.state for t in await gw.store.turns(sid)] == ["interrupted", "completed"]
