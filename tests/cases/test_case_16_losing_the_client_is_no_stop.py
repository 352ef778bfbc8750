"""Case 16: a client that goes changes delivery only; the turn runs on and its answer is stored."""

from __future__ import annotations

from tenure.models.script import Script
from tenure.testing.clock import settle
from tenure.testing.gateway import open_test_gateway


async def test_the_turn_finishes_without_anybody_and_is_there_for_whoever_comes(tmp_path):
    script = Script([[{"text": "Half, "}, {"gate": "g"}, {"text": "and the rest."}]])
    async with open_test_gateway(tmp_path, script) as gw:
        client, scope = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="go")
        await client.until("message.delta")
        await scope.close()
        script.gate("g").open()
        await settle(60)
        (turn,) = await gw.store.turns(sid)
        assert (turn.state, turn.cause) == ("completed", "stop")
        late, _ = await gw.client()
        opened = await late.call("session.attach", session_id=sid)
        assert opened["messages"][-1]["text"] == "Half, and the rest."
        missed = await late.call("session.events.since", session_id=sid, last_seen=1)
        assert missed["events"][-1]["payload"]["text"] == "Half, and the rest."


async def test_a_stop_is_a_stop(tmp_path):
    script = Script([[{"text": "Half, "}, {"gate": "g"}]])
    async with open_test_gateway(tmp_path, script) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="go")
        await client.until("message.delta")
        await client.call("session.interrupt", session_id=sid)
        end = (await client.until("message.complete", sid)).payload
        assert (end["state"], end["cause"]) == ("interrupted", "user")
