"""Case 92 (submit): the acknowledgement is lost, the client sends again, one run follows."""

from __future__ import annotations

import pytest

from support.restarts import Restarts
from tenure.errors import Conflict
from tenure.models.script import Script
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.store import MemoryStore
from tenure.testing.waiting import until


async def test_lost_acknowledgements_retries_side_by_side_and_after_a_boot(tmp_path):
    restarts = Restarts(tmp_path)
    script = Script([{"text": "Once."}, {"text": "Twice!"}])
    async with restarts.boot(script) as gw:
        client, scope = await gw.client()
        sid = await client.ready_session()
        sent = {"session_id": sid, "text": "do it", "key": "k-1"}
        gw.root.spawn(_lost(client, sent), name="lost")
        await settle(3)
        await scope.close()  # committed, and nobody is told
        await settle(40)
        again, _ = await gw.client()
        await again.call("session.resume", session_id=sid)
        first = await again.call("prompt.submit", **sent)
        pair = [
            gw.root.spawn(again.call("prompt.submit", **sent), name="retry").value for _ in range(2)
        ]
        answers = [first, *[await call for call in pair]]
        assert len({a["turn_id"] for a in answers}) == 1
        await until(lambda: gw.sessions.get(sid).current is None)
        await again.call("session.title", session_id=sid, title="after its end is stored")
        assert len(script.requests) == 1
        restarts.kill()
    async with restarts.boot(Script([{"text": "Twice!"}])) as gw:
        client, _ = await gw.client()
        await client.call("session.resume", session_id=sid)
        late = await client.call("prompt.submit", **sent)
        assert late["turn_id"] == first["turn_id"] and late["duplicate"]
        with pytest.raises(Conflict, match="another prompt"):
            await client.call("prompt.submit", **{**sent, "text": "do something else"})
        await settle(40)
        assert [t[0] for t in restarts.turns()] == ["do it"]


async def test_side_by_side_from_the_first_moment(tmp_path):
    restarts = Restarts(tmp_path)
    async with restarts.boot(Script([{"text": "Once."}, {"text": "Twice!"}])) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        calls = [
            gw.root.spawn(
                client.call("prompt.submit", session_id=sid, text="do it", key="k"), name="submit"
            ).value
            for _ in range(4)
        ]
        assert len({(await call)["turn_id"] for call in calls}) == 1
        await client.until("message.complete", sid)
        await until(lambda: gw.sessions.get(sid).current is None)
        assert len(restarts.turns()) == 1


async def _lost(client, sent):
    from contextlib import suppress

    from tenure.errors import TransportError

    with suppress(TransportError):
        await client.call("prompt.submit", **sent)


async def test_a_retry_that_comes_before_the_commit_waits_for_it(tmp_path):
    gate, store = Gate(), MemoryStore()
    script = Script([{"text": "Once."}, {"text": "Twice!"}])
    async with open_test_gateway(tmp_path, script, store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await settle()
        store._gate = gate
        sent = {"session_id": sid, "text": "do it", "key": "k"}
        calls = [
            gw.root.spawn(client.call("prompt.submit", **sent), name="submit").value
            for _ in range(2)
        ]
        await gate.wait_parked()
        await settle()
        gate.release()
        assert len({(await call)["turn_id"] for call in calls}) == 1
        await client.until("message.complete", sid)
        await until(lambda: gw.sessions.get(sid).current is None)
        assert len(await store.turns(sid)) == 1
