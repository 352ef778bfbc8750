"""Case 22: a client keeps the sessions that it is attached to, and no others."""

from __future__ import annotations

from support.idle import IDLE_S, idle_gateway, live, pass_time


async def test_forty_nine_detached_one_kept(tmp_path):
    async with idle_gateway(tmp_path) as gw:
        client, _ = await gw.client()
        sessions = [await client.ready_session() for _ in range(50)]
        for sid in sessions[1:]:
            await client.call("session.detach", session_id=sid)
        await pass_time(gw, 2 * IDLE_S)
        assert live(gw) == sessions[:1]
        assert {(await gw.store.session(sid)).status for sid in sessions[1:]} == {"idle"}
        assert len([e for e in gw.root.census() if e.kind == "attachment"]) == 1
