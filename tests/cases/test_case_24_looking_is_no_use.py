"""Case 24: only work in a session is use; reconnects, pings, lists and status are none."""

from __future__ import annotations

import pytest

from support.idle import GRACE_S, IDLE_S, PERIOD_S, idle_gateway, live, pass_time
from tenure.models.script import Script
from tenure.testing.clock import settle


@pytest.mark.parametrize("prompted", [True, False])
async def test_a_hundred_reconnects_are_no_use_and_one_prompt_is(tmp_path, prompted):
    async with idle_gateway(tmp_path, Script([{"text": "Yes."}], loop=True)) as gw:
        client, scope = await gw.client()
        sid = await client.ready_session()
        await scope.close()
        looks = 100
        for _ in range(looks):
            other, other_scope = await gw.client()
            await other.call("session.attach", session_id=sid, lazy=True)
            await other.call("session.status", session_id=sid)
            await other.call("session.list")
            await other.call("session.active_list", current_session_id=sid)
            await other.call("session.events.since", session_id=sid)
            await other_scope.close()
            await settle(5)
            gw.clock.advance((IDLE_S - PERIOD_S) / looks)
        if prompted:
            other, other_scope = await gw.client()
            await other.call("session.attach", session_id=sid)
            await other.call("prompt.submit", session_id=sid, text="work")
            await other.until("message.complete", sid)
            await other_scope.close()
        await pass_time(gw, GRACE_S + PERIOD_S)
        assert live(gw) == ([sid] if prompted else [])
