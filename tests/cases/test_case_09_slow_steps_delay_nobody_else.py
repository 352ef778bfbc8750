"""Case 9: a slow build or a slow finaliser delays no other session."""

from __future__ import annotations

import pytest

from tenure.models.script import Script
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway


async def test_others_work_while_one_builds(tmp_path):
    async with open_test_gateway(tmp_path, Script([{"text": "ok"}], loop=True)) as gw:
        client, _ = await gw.client()
        gate = gw.picker.gates["http client"] = Gate()
        await client.call("session.create")
        await gate.wait_parked()
        del gw.picker.gates["http client"]
        b = await client.ready_session()
        await client.call("prompt.submit", session_id=b, text="hello")
        await client.until("message.complete", b)
        assert len((await client.call("session.active_list"))["sessions"]) == 2
        assert await client.call("session.close", session_id=b) == {"closed": True}
        gate.release()


@pytest.mark.timeout(20)  # without its guard it would hang
async def test_a_finaliser_that_hangs_is_cut_at_its_deadline(tmp_path):
    script = Script([{"text": "ok"}], loop=True)
    async with open_test_gateway(tmp_path, script) as gw:
        client, _ = await gw.client()
        a, b = await client.ready_session(), await client.ready_session()
        await client.call("prompt.submit", session_id=a, text="hello")
        done = await client.until("message.complete", a)
        assert done.payload["state"] == "completed", "the terminal event comes before the finaliser"
        gate, killed = Gate(), []

        async def hang(_value):
            await gate.park()

        gw.sessions.get(a).scope.own(
            "finaliser", "x", hang, kill=lambda v: (killed.append(v), gate.release()), grace_s=3.0
        )
        closing = gw.root.spawn(client.call("session.close", session_id=a), name="close").value
        await gate.wait_parked()
        await client.call("prompt.submit", session_id=b, text="hello")
        await client.until("message.complete", b)
        gw.ports.clock.advance(2.5)
        assert await closing == {"closed": True}
        gw.ports.clock.advance(1.0)
        closed = await client.until("session.closed", a)
        assert killed == ["x"] and closed.payload["failures"] == 1
        await settle()
        assert a not in [s.id for s in gw.sessions.live()]
