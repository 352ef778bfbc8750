"""Case 33: an ended turn tells everybody, with its cause."""

from __future__ import annotations

import pytest

from tenure.models.script import Script
from tenure.testing.clock import settle
from tenure.testing.gateway import open_test_gateway


async def interrupted_by_the_user(gw, client, _scope, sid):
    await client.call("session.interrupt", session_id=sid)


async def the_client_left(gw, client, scope, sid):
    await scope.close()


async def the_gateway_ends(gw, client, _scope, sid):
    await gw.sessions.drain("gateway ended", 5.0)


CAUSES = {
    "user": interrupted_by_the_user,
    "client": the_client_left,
    "shutdown": the_gateway_ends,
}


@pytest.mark.parametrize("cause", CAUSES)
async def test_one_terminal_event_and_row_with_its_cause(tmp_path, cause):
    script = Script([[{"text": "Part"}, {"gate": "mid"}]])
    async with open_test_gateway(tmp_path, script) as gw:
        client, scope = await gw.client()
        sid = await client.ready_session(close_on_disconnect=True)
        await client.call("prompt.submit", session_id=sid, text="hi")
        await client.until("message.delta")
        session = gw.sessions.get(sid)
        await CAUSES[cause](gw, client, scope, sid)
        while session.closing is None and session.current is not None:
            await settle(1)
        if session.closing is not None:
            await session.closing
        await gw.store.write()  # behind everything accepted before
        rows = await gw.store.events(sid, epoch=1, after_seq=0, limit=100)
        events = [row for row in rows if row.type == "message.complete"]
        assert len(events) == 1
        (turn,) = await gw.store.turns(sid)
        assert (turn.state, turn.cause) == ("interrupted", cause)
        assert f'"cause":"{cause}"'.encode() in events[0].payload


async def test_a_failing_model_and_a_crash_are_told_apart(tmp_path):
    from tenure.store.base import SettleLeftovers

    script = Script([{"error": {"status": 500, "message": "no"}}, [{"gate": "never"}]])
    async with open_test_gateway(tmp_path, script) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="one")
        done = await client.until("message.complete")
        assert (done.payload["state"], done.payload["cause"]) == ("failed", "model")
        await client.call("prompt.submit", session_id=sid, text="two")
        await gw.store.write(SettleLeftovers("crash", 1.0))
        turns = await gw.store.turns(sid)
        assert [(t.state, t.cause) for t in turns] == [
            ("failed", "model"),
            ("interrupted", "crash"),
        ]
