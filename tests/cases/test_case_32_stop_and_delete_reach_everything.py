"""Case 32: a deleted session does nothing more, and its row does not come back."""

from __future__ import annotations

import pytest

from support.restarts import Restarts
from tenure.config import ApprovalsConfig, Config
from tenure.models.base import Picked
from tenure.models.retry import RetryPolicy, retried
from tenure.models.script import Script
from tenure.models.scripted import ScriptedModel
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.tools import scripted_tool
from tenure.tools.base import Effect
from tenure.tools.registry import tools_for

LONG = "word " * 400
AGAIN = {"error": {"status": 429, "message": "slow down", "retry_after_s": 15}}
STEPS = {
    "model": [[{"text": "Half"}, {"gate": "g"}, {"text": " more"}]],
    "shell": [[{"call": {"name": "shell", "arguments": {"command": "sleep 1000"}}}]],
    "tool": [[{"call": {"name": "slow", "arguments": {}}}]],
    "back-off": [AGAIN, {"text": "never"}],
    "approval": [[{"call": {"name": "danger", "arguments": {}}}]],
    "compaction": [{"text": LONG}, {"text": LONG}],
    "queue": [[{"gate": "g"}, {"text": "One."}], {"text": "Two."}],
}


@pytest.mark.parametrize("activity", STEPS)
async def test_whatever_it_is_doing(tmp_path, activity):
    gate = Gate()
    slow = scripted_tool("slow", gate=gate)
    danger = scripted_tool("danger", effect=Effect.EXECUTE)
    summary = [{"gate": "g"}, {"text": "S."}]
    script = Script(STEPS[activity], on=[{"match": "Summarize the session", "step": summary}])

    def tools(config, small):
        return (*tools_for(config, small), slow, danger)

    restarts = Restarts(tmp_path)
    config = Config(approvals=ApprovalsConfig())
    async with restarts.boot(script, tools=tools, config=config) as gw:
        if activity == "back-off":
            _retry_in(gw)
        client, _ = await gw.client()
        watcher, _ = await gw.client()
        sid = await client.ready_session(auto_approve=activity in {"shell", "tool"})
        await watcher.call("session.attach", session_id=sid, role="viewer")
        if activity == "compaction":
            for n in range(2):
                await client.call("prompt.submit", session_id=sid, text=f"p{n}")
                await client.until("message.complete", sid)
            gw.root.spawn(_quietly(client, sid), name="compress")
            await script.gate("g").wait_reached()
        else:
            await client.call("prompt.submit", session_id=sid, text="go")
            if activity == "queue":
                await client.call("prompt.submit", session_id=sid, text="later")
            await _under_way(activity, client, sid, script, gate)
        asked = len(script.requests)
        assert await client.call("session.delete", session_id=sid) == {"deleted": sid}
        heard = len([e async for e in _drained(watcher) if e.session_id == sid])
        script.gate("g").open()
        gate.release()
        for _ in range(5):
            gw.ports.clock.advance(60.0)
            await settle(40)
        assert len(script.requests) == asked
        assert len([e async for e in _drained(watcher) if e.session_id == sid]) == 0 < heard + 1
        assert await gw.store.session(sid) is None
        assert await gw.store.turns(sid) == [] and await gw.store.history(sid) == []
        assert gw.census(sid) == [] and danger.effects == []
    async with restarts.boot(Script([])) as gw:
        assert await gw.store.session(sid) is None
        assert restarts.rows("SELECT count(*) FROM turns") == [(0,)]


async def _under_way(activity, client, sid, script, gate):
    if activity in {"model", "queue"}:
        await script.gate("g").wait_reached()
    elif activity == "tool":
        await gate.wait_parked()
    elif activity == "shell":
        await client.until("tool.start", sid)
    elif activity == "back-off":
        await client.until("status.update", sid)
    else:
        await client.until("approval.request", sid)


class _Retried(ScriptedModel):
    """The scripted model, asked again like those of providers."""

    def stream(self, request):
        return retried(lambda: super(_Retried, self).stream(request), self._clock, RetryPolicy())


def _retry_in(gw):
    pick = gw.picker.pick

    async def picked(wanted, into):
        found = await pick(wanted, into)
        return Picked(_Retried(found.model.ref, gw.picker.script, gw.ports.clock), "a test")

    gw.picker.pick = picked


async def _quietly(client, sid):
    from contextlib import suppress

    from tenure.errors import TenureError

    with suppress(TenureError):
        await client.call("session.compress", session_id=sid)


async def _drained(client):
    await settle(20)
    while client._events:
        yield client._events.popleft()
