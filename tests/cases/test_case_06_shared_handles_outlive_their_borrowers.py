"""Case 6: closing one session does not close what others share."""

from __future__ import annotations

from tenure.models.script import Script
from tenure.testing.clock import settle
from tenure.testing.gateway import open_test_gateway


async def test_the_store_stays_open_for_the_other_session(tmp_path):
    async with open_test_gateway(tmp_path, Script([{"text": "ok"}], loop=True)) as gw:
        client, _ = await gw.client()
        a, b = await client.ready_session(), await client.ready_session()
        await client.call("session.close", session_id=a)
        await client.call("session.resume", session_id=a)
        await client.until("session.info", a)
        await client.call("session.close", session_id=a)
        await client.call("prompt.submit", session_id=b, text="still there?")
        done = await client.until("message.complete", b)
        assert done.payload["state"] == "completed"
        assert [t.state for t in await gw.store.turns(b)] == ["completed"]


async def test_a_borrowed_provider_closes_with_its_last_borrower(tmp_path):
    from tenure.clock import SystemClock
    from tenure.lifecycle.scope import Scope
    from tenure.lifecycle.shared import Shared

    closed = []
    root = Scope.root("r", SystemClock())

    async def build(key):
        return key

    shared = Shared(root, "provider", build=build, release=closed.append)
    one, two = root.child("one"), root.child("two")
    await shared.borrow("p", one)
    await shared.borrow("p", two)
    await one.close()
    assert closed == []
    await two.close()
    await settle()
    assert closed == ["p"]
    await root.close()
