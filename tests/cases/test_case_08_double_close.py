"""Case 8: closing twice is harmless, later use raises one typed error."""

from __future__ import annotations

import pytest

from tenure.errors import SessionClosing, SessionNotFound
from tenure.models.script import Script
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.store import MemoryStore


@pytest.mark.timeout(20)  # without its guard it would hang
async def test_closes_from_everywhere_make_one_teardown(tmp_path):
    gate = Gate()
    store = MemoryStore()
    async with open_test_gateway(tmp_path, Script([]), store=store) as gw:
        client, _ = await gw.client()
        other, _ = await gw.client()
        sid = await client.ready_session()
        session = gw.sessions.get(sid)
        store._gate = gate
        title = gw.root.spawn(
            client.call("session.title", session_id=sid, title="kept"), name="write"
        ).value
        await gate.wait_parked()
        closes = [
            gw.root.spawn(c.call("session.close", session_id=sid), name="close").value
            for c in (client, other, client)
        ]
        import asyncio

        await asyncio.sleep(0)
        while session.scope.admits:
            await asyncio.sleep(0)
        with pytest.raises(SessionClosing):
            await session.submit("too late")
        gate.release()
        assert [await c for c in closes] == [{"closed": True}] * 3
        assert (await title)["title"] == "kept"
        assert sum(line.startswith("release") for line in gw.picker.log) == 3
        await gw.sessions.wait_stored()
        rows = await gw.store.events(sid, epoch=1, after_seq=0, limit=99)
        assert [row.type for row in rows].count("session.closed") == 1
        stored = await gw.store.session(sid)
        assert (stored.status, stored.title) == ("closed", "kept")
        with pytest.raises(SessionNotFound, match=r"session\.resume"):
            await client.call("prompt.submit", session_id=sid, text="x")
        fresh = await client.ready_session()
        assert gw.sessions.get(fresh).status == "idle"
