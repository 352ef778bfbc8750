"""Case 50: a burst of small deltas is merged; a client that reads in pulses loses nothing."""

from __future__ import annotations

import asyncio

from tenure.models.script import Script
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.store import MemoryStore

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
        monkeypatch.setattr(transport, "send_nowait", lambda frame, **_: False)
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


async def test_a_model_that_is_faster_than_the_disk_waits_for_it(tmp_path):
    """What it says stands in line behind a commit; the line must not grow into a burst."""
    store = MemoryStore()
    piece = "x" * 10_000
    script = Script([[*[{"reasoning": piece}] * 500, {"text": "Done."}]])
    async with open_test_gateway(tmp_path, script, store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        store._gate = disk = Gate()
        submitting = gw.root.spawn(
            client.call("prompt.submit", session_id=sid, text="go"), name="submit"
        ).value
        await disk.wait_parked()
        await settle(400)
        try:
            waiting = gw.sessions.get(sid).journal._line
            assert sum(len(e.payload.get("text", "")) for w in waiting for e in w.events) < 100_000
        finally:
            disk.release()
        await submitting
        assert (await client.until("message.complete", sid)).payload["text"] == "Done."
