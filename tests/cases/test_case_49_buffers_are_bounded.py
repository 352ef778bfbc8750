"""Case 49: a client that stops reading costs a bounded amount, and gets a snapshot when it returns."""

from __future__ import annotations

import asyncio
import sys

from tenure.models.script import Script
from tenure.rpc import outbox
from tenure.testing.gateway import open_test_gateway

PIECE = "y" * 1_000_000
COUNT = 100


async def test_a_hundred_megabytes_for_a_client_that_does_not_read(tmp_path, monkeypatch):
    script = Script([[*[{"reasoning": PIECE}] * COUNT, {"text": "Done."}]])
    async with open_test_gateway(tmp_path, script) as gw:
        stalled, stalled_scope = await gw.client()
        client, _ = await gw.client()
        sid = await client.ready_session()
        await stalled.call("session.attach", session_id=sid)
        listener = gw.sessions.get(sid).attachments._bound[-1].value.listener
        gate = asyncio.Event()

        async def send(frame):
            await gate.wait()

        monkeypatch.setattr(listener._transport, "send", send)
        monkeypatch.setattr(listener._transport, "send_nowait", lambda frame, **_: False)
        await client.call("prompt.submit", session_id=sid, text="go")
        end = (await client.until("message.complete", sid)).payload
        assert end["text"] == "Done."
        waiting = sum(_size(entry) for entry in listener._outbox._entries)
        assert waiting < 2 * outbox.EVENT_BYTES_MAX
        await stalled_scope.close()
        back, _ = await gw.client()
        opened = await back.call("session.attach", session_id=sid, omit_messages=True)
        assert (opened["status"], opened["message_count"]) == ("idle", 2)


def _size(entry) -> int:
    payload = getattr(entry, "payload", None)
    return sys.getsizeof(entry) + sum(len(str(v)) for v in (payload or {}).values())
