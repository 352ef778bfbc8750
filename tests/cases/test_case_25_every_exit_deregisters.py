"""Case 25: created and ended, refused, never used or abandoned: nothing stays registered."""

from __future__ import annotations

from contextlib import suppress

from support.idle import IDLE_S, idle_gateway, live, pass_time
from tenure.errors import TenureError
from tenure.testing.clock import settle

CYCLES = 200


async def test_tables_are_empty_after_every_kind_of_exit(tmp_path):
    async with idle_gateway(tmp_path) as gw:
        client, _ = await gw.client()
        before = len(gw.root.census())
        for n in range(CYCLES):
            sid = await client.ready_session()
            await client.call("session.close" if n % 2 else "session.delete", session_id=sid)
            with suppress(TenureError):
                await client.call("session.create", cwd="/there/is/no/such/folder")
            with suppress(TenureError):
                await client.call("session.resume", session_id="nothing of the kind")
            await client.call("session.list", limit=1)
        for _ in range(CYCLES):
            await client.call("session.detach", session_id=await client.ready_session())
        assert len(live(gw)) == CYCLES
        await pass_time(gw, 2 * IDLE_S)
        await settle(100)
        assert live(gw) == []
        assert not gw.sessions._opening and not gw.sessions._closing
        assert len(gw.root.census()) == before
        assert gw.picker.opened == []
