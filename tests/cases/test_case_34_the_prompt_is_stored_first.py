"""Case 34: the prompt is stored before it is acknowledged (kill -9 of it: tests/acceptance)."""

from __future__ import annotations

import pytest

from tenure.errors import StoreError
from tenure.models.script import Script
from tenure.store.base import SettleLeftovers
from tenure.testing.gateway import open_test_gateway
from tenure.testing.store import MemoryStore


async def test_after_the_acknowledgement_the_prompt_is_in_the_rows(tmp_path):
    script = Script([[{"gate": "never"}]])
    async with open_test_gateway(tmp_path, script) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="remember me")
        assert [row.message.text for row in await gw.store.history(sid)] == ["remember me"]
        assert [(t.prompt, t.state) for t in await gw.store.turns(sid)] == [
            ("remember me", "running")
        ]
        await gw.store.write(SettleLeftovers("crash", 1.0))
        assert [(t.state, t.cause) for t in await gw.store.turns(sid)] == [("interrupted", "crash")]


async def test_a_failed_commit_is_never_acknowledged(tmp_path):
    store = MemoryStore()
    async with open_test_gateway(tmp_path, Script([{"text": "x"}]), store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        store.fail(StoreError("broken"))
        with pytest.raises(StoreError):
            await client.call("prompt.submit", session_id=sid, text="lost")
        assert await gw.store.history(sid) == []
