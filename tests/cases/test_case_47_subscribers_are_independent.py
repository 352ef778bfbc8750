"""Case 47: each subscriber hears everything, and the log outlives them all."""

from __future__ import annotations

from tenure.models.script import Script
from tenure.testing.gateway import open_test_gateway


async def test_two_hear_all_one_goes_a_late_one_gets_all(tmp_path):
    script = Script([[{"text": "a"}, {"text": "b"}, {"gate": "g"}, {"text": "c"}]])
    async with open_test_gateway(tmp_path, script) as gw:
        first, first_scope = await gw.client()
        second, _ = await gw.client()
        sid = await first.ready_session()
        await second.call("session.attach", session_id=sid)
        await first.call("prompt.submit", session_id=sid, text="go")
        for client in (first, second):
            await client.until("message.delta", sid)
        await first_scope.close()
        script.gate("g").open()
        await second.until("message.complete", sid)
        assert "".join(e.payload["text"] for e in second.seen if e.type == "message.delta") == "abc"
        late, _ = await gw.client()
        opened = await late.call("session.attach", session_id=sid, cursor={"epoch": 1, "seq": 0})
        assert opened["replay"]["events"] == 2
        end = await late.until("message.complete", sid)
        assert end.payload["text"] == "abc"
        await late.call("session.close", session_id=sid)
        asked = await late.call("session.history", session_id=sid)
        assert asked["messages"][-1]["text"] == "abc", "the result is there by its id"
