"""Case 15: what is unloaded and opened again works as it did: state comes from the store alone."""

from __future__ import annotations

import pytest

from tenure.models.script import Script
from tenure.testing.clock import settle
from tenure.testing.gateway import open_test_gateway
from tenure.tools.registry import tools_for


async def one_turn(client, sid, text):
    await client.call("prompt.submit", session_id=sid, text=text)
    await client.until("message.complete", sid)


@pytest.mark.parametrize("how", ["unloaded", "closed", "rested"])
async def test_the_next_request_is_the_same_apart_from_history(tmp_path, how):
    work = tmp_path / "work"
    work.mkdir()
    (work / "AGENTS.md").write_text("Always answer in verse.")
    script = Script([{"text": "One."}, {"text": "Two."}, {"text": "Three."}])
    async with open_test_gateway(tmp_path, script, tools=tools_for) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session(cwd=str(work), title="Mine")
        await client.call("config.set", session_id=sid, key="model", value="scripted:other")
        await client.until("session.info", sid)
        await client.call("config.set", session_id=sid, key="busy", value="steer")
        await one_turn(client, sid, "first")
        before, facts = script.requests[-1], gw.sessions.get(sid).info()
        if how == "rested":
            assert gw.sessions.get(sid).rest()
        else:
            if how == "unloaded":
                await client.call("session.detach", session_id=sid)
                gw.sessions.unload(gw.sessions.get(sid), "a test")
            else:
                await client.call("session.close", session_id=sid)
            await settle(40)
            await client.call("session.resume", session_id=sid, eager_build=True)
        await one_turn(client, sid, "second")
        after = script.requests[-1]
        assert (after.system, after.tools) == (before.system, before.tools)
        assert "in verse" in after.system
        assert [m.text for m in after.messages] == ["first", "One.", "second"]
        kept = ("model", "model_reason", "cwd", "title", "busy", "tools", "instructions")
        now = gw.sessions.get(sid).info()
        assert {k: now[k] for k in kept} == {k: facts[k] for k in kept}
        assert now["model"] == "scripted:other" and now["busy"] == "steer"


async def test_an_override_is_honoured(tmp_path):
    script = Script([{"text": "One."}])
    async with open_test_gateway(tmp_path, script) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session(auto_approve=True)
        await client.call("session.close", session_id=sid)
        opened = await client.call("session.resume", session_id=sid, eager_build=True)
        assert opened["info"]["yolo"] is False, "a bypass is not carried over"
        await client.call("session.close", session_id=sid)
        opened = await client.call("session.resume", session_id=sid, auto_approve=True)
        assert opened["info"]["yolo"] is True
