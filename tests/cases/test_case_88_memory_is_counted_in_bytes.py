"""Case 88: histories are limited by bytes; what is over goes back to the store and comes again."""

from __future__ import annotations

import pytest

from support.idle import idle_gateway, live
from tenure.models.script import Script
from tenure.testing.clock import settle

SESSIONS = 12
MIB = 1 << 20


@pytest.mark.parametrize("attached", [True, False])
async def test_many_large_histories_stay_under_the_budget_and_come_back(tmp_path, attached):
    script = Script([{"text": "x" * MIB}, {"text": "again"}], context_tokens=9_000_000)
    async with idle_gateway(tmp_path, script, history_mib=4) as gw:
        client, _ = await gw.client()
        sessions = []
        for n in range(SESSIONS):
            sid = await client.ready_session()
            sessions.append(sid)
            await client.call("prompt.submit", session_id=sid, text=f"prompt {n}")
            await client.until("message.complete", sid)
            if not attached:
                await client.call("session.detach", session_id=sid)
            gw.clock.advance(1.5)
            await settle(30)
            assert gw.sessions.ports.memory.histories.held_bytes <= 5.1 * MIB
        if attached:
            assert live(gw) == sessions
            resting = [s.id for s in gw.sessions.live() if s.unbuilt]
            assert len(resting) >= SESSIONS - 5
            assert len(gw.picker.opened) == 3 * (SESSIONS - len(resting))
        else:
            assert len(live(gw)) <= 5
        for n, sid in enumerate(sessions):
            if not attached:
                await client.call("session.attach", session_id=sid, omit_messages=True)
            await client.call("prompt.submit", session_id=sid, text="more")
            await client.until("message.complete", sid)
            sent = script.requests[-1].messages
            assert [len(m.text) for m in sent] == [len(f"prompt {n}"), MIB, 4]
            if not attached:
                await client.call("session.detach", session_id=sid)
            gw.clock.advance(1.5)
            await settle(30)
        for sid in sessions:
            await client.call("session.delete", session_id=sid)
        assert gw.sessions.ports.memory.histories.held_bytes == 0


async def test_a_working_session_is_never_touched(tmp_path):
    script = Script([{"text": "x" * MIB}, [{"gate": "g"}, {"text": "end"}]])
    async with idle_gateway(tmp_path, script, history_mib=1) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="first")
        await client.until("message.complete", sid)
        gw.clock.advance(5)
        await client.call("prompt.submit", session_id=sid, text="second")
        await script.gate("g").wait_reached()
        other = await client.ready_session()
        for _ in range(3):
            gw.clock.advance(5)
            gw.sessions.reaper.look()
        assert gw.sessions.get(sid).journal.loaded and gw.sessions.get(sid).agent is not None
        script.gate("g").open()
        end = (await client.until("message.complete", sid)).payload
        assert end["text"] == "end" and other in live(gw)
