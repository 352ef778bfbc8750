"""Case 50: a burst of small deltas is merged; a client that reads in pulses loses nothing."""

from __future__ import annotations

import asyncio

from tenure.models.script import Script
from tenure.testing.clock import settle
from tenure.testing.gateway import open_test_gateway

DELTAS = 20_000


async def test_twenty_thousand_deltas_in_one_tick_for_a_client_that_reads_in_pulses(
    tmp_path, monkeypatch
):
    async with open_test_gateway(tmp_path, Script([[{"text": "!"}, {"gate": "g"}]])) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        session = gw.sessions.get(sid)
        (bound,) = session.attachments._bound
        transport = bound.value.listener._transport
        pulse = asyncio.Event()
        send = transport.send

        async def in_pulses(frame):
            await pulse.wait()
            await send(frame)

        monkeypatch.setattr(transport, "send", in_pulses)
        monkeypatch.setattr(transport, "send_nowait", lambda frame: False)
        calls = [
            gw.root.spawn(client.call("session.status", session_id=sid), name="ask").value
            for _ in range(20)
        ]
        source = [f"{n} " for n in range(DELTAS)]
        for piece in source:
            session.journal.transient("message.delta", {"text": piece})
        await settle()
        assert not any(call.done() for call in calls)
        for _ in range(60):
            pulse.set()
            await asyncio.sleep(0)
            pulse.clear()
            await settle(3)
        pulse.set()
        answers = [await call for call in calls]
        assert all("state" in answer["output"] for answer in answers)
        await client.call("session.title", session_id=sid, title="end")
        await client.until("session.title", sid)
        deltas = [e for e in client.seen if e.type == "message.delta"]
        assert "".join(e.payload["text"] for e in deltas) == "".join(source)
        assert len(deltas) < 100
        assert session.scope.admits and len(session.attachments) == 1
