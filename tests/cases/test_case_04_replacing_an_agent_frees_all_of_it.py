"""Case 4: replacing an agent (/model, /new) frees all of it."""

from __future__ import annotations

import gc

from tenure.models.script import Script
from tenure.testing.clock import settle
from tenure.testing.gateway import StepPicker, open_test_gateway


def objects():
    """How many agents and scopes are reachable, in the census or not."""
    gc.collect()
    kinds = [type(found).__name__ for found in gc.get_objects()]
    return {kind: kinds.count(kind) for kind in ("Agent", "Scope")}


async def test_a_hundred_model_switches_hold_one_agent(tmp_path):
    async with open_test_gateway(tmp_path, Script([])) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        baseline = sorted(gw.census())
        session = gw.sessions.get(sid)
        held = objects()
        for n in range(100):
            await client.call("slash.exec", session_id=sid, command=f"/model scripted:m{n}")
            while session.agent is None or session.agent.model.ref != f"scripted:m{n}":
                await client.until("session.info", sid)
            assert gw.picker.opened == list(StepPicker.STEPS)
        await settle()
        assert sorted(gw.census()) == baseline
        assert gw.picker.picks == 101
        assert objects() == held == {"Agent": 1, "Scope": held["Scope"]}


async def test_a_hundred_new_sessions_leave_nothing_when_closed(tmp_path):
    async with open_test_gateway(tmp_path, Script([{"text": "x"}], loop=True)) as gw:
        client, _ = await gw.client()
        baseline = None
        for n in range(100):
            sid = await client.ready_session()
            await client.call("prompt.submit", session_id=sid, text="hello")
            await client.until("message.complete", sid)
            await client.call("session.close", session_id=sid)
            await client.until("session.closed", sid)
            await settle()
            held = sorted(gw.census())
            baseline = held if n == 0 else baseline
            assert held == baseline
            assert gw.picker.opened == []
