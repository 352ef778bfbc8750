"""Case 26: two turns never run on one session."""

from __future__ import annotations

import pytest

from tenure.models.script import Script
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.store import MemoryStore
from tenure.testing.tools import scripted_tool


@pytest.mark.timeout(20)  # without its guard it would hang
async def test_a_second_prompt_sees_the_first_ones_answer(tmp_path):
    gate = Gate()
    store = MemoryStore()
    script = Script(
        [
            [{"call": {"name": "effect", "arguments": {}}}],
            {"text": "one"},
            [{"call": {"name": "effect", "arguments": {}}}],
            {"text": "two"},
        ]
    )
    tool = scripted_tool("effect")
    async with open_test_gateway(tmp_path, script, store=store, tools=lambda _c, _s: (tool,)) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session(auto_approve=True)
        store._gate = gate  # the first prompt's commit, before anything of the turn is seen
        session = gw.sessions.get(sid)
        first = gw.root.spawn(session.submit("p1"), name="first").value
        second = gw.root.spawn(session.submit("p2"), name="second").value
        await gate.wait_parked()
        await settle()
        assert session.current is not None and session.queued == 1
        gate.release()
        await client.until("message.complete")
        await client.until("message.complete")
        assert (await first).position == 0 and (await second).position == 1
        texts = [
            row.message.text for row in await gw.store.history(sid) if row.message.role != "tool"
        ]
        assert texts == ["p1", "", "one", "p2", "", "two"]
        assert "one" in [m.text for m in script.requests[2].messages]
        assert len(tool.effects) == 2
