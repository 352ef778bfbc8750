"""Case 17: an id that is not live any more is answered with the way back."""

from __future__ import annotations

import pytest

from support.restarts import Restarts
from tenure.errors import SessionClosing, SessionNotFound
from tenure.models.script import Script

CALLS = (
    ("prompt.submit", {"text": "on"}),
    ("approval.respond", {"choice": "once"}),
    ("session.interrupt", {}),
)


@pytest.mark.parametrize("how", ["unloaded", "killed"])
async def test_every_call_says_resume_first_and_works_after_one(tmp_path, how):
    restarts = Restarts(tmp_path)
    async with restarts.boot(Script([{"text": "One."}])) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="first")
        await client.until("message.complete", sid)
        if how == "unloaded":
            await client.call("session.detach", session_id=sid)
            gw.sessions.unload(gw.sessions.get(sid), "a test")
            await _back(gw, client, sid)
        else:
            restarts.kill()
    if how == "killed":
        async with restarts.boot(Script([{"text": "Two."}])) as gw:
            client, _ = await gw.client()
            await _back(gw, client, sid)


async def _back(gw, client, sid):
    for method, params in CALLS:
        with pytest.raises((SessionNotFound, SessionClosing), match="resume"):
            await client.call(method, session_id=sid, **params)
    opened = await client.call("session.resume", session_id=sid)
    assert opened["session_id"] == sid
    await client.call("session.interrupt", session_id=sid)
    await client.call("prompt.submit", session_id=sid, text="on")
    end = (await client.until("message.complete", sid)).payload
    assert end["state"] in {"completed", "failed"}  # the script may be over
    assert len([r for r in await gw.store.turns(sid) if r.prompt == "on"]) == 1
