"""Case 18: a session that was busy when its time came is looked at again."""

from __future__ import annotations

from support.idle import GRACE_S, IDLE_S, PERIOD_S, idle_gateway, live, pass_time
from tenure.models.script import Script
from tenure.testing.clock import settle


async def test_busy_then_free_then_unloaded(tmp_path):
    script = Script([[{"text": "Long, "}, {"gate": "g"}, {"text": "done."}]])
    async with idle_gateway(tmp_path, script) as gw:
        client, scope = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="go")
        await client.until("message.delta")
        await scope.close()
        await pass_time(gw, 10 * IDLE_S)
        assert live(gw) == [sid], "it works"
        script.gate("g").open()
        await settle(60)
        await pass_time(gw, IDLE_S - PERIOD_S)
        assert live(gw) == [sid], "its last work is not old yet"
        await pass_time(gw, 2 * PERIOD_S + GRACE_S)
        assert live(gw) == []
        assert gw.census(sid) == []
        assert (await gw.store.session(sid)).status == "idle"
        assert gw.picker.opened == []


async def test_one_that_cannot_be_looked_at_does_not_keep_the_others(tmp_path, monkeypatch):
    async with idle_gateway(tmp_path) as gw:
        client, scope = await gw.client()
        bad, good = await client.ready_session(), await client.ready_session()
        await scope.close()
        await settle()
        monkeypatch.setattr(type(gw.sessions), "unload", _failing(type(gw.sessions).unload, bad))
        await pass_time(gw, 2 * IDLE_S)
        assert live(gw) == [bad] and good != bad


def _failing(unload, bad):
    def fails(sessions, session, why):
        if session.id == bad:
            raise RuntimeError("a test")
        return unload(sessions, session, why)

    return fails
