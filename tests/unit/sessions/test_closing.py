"""A closing meets what comes back, what could not be stored, what hangs."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest

from tenure.agent.ports import TurnEnd
from tenure.errors import StoreFull
from tenure.models.script import Script
from tenure.sessions.closing import TURN_GRACE_S
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway


@asynccontextmanager
async def opened(tmp_path, *steps):
    async with open_test_gateway(tmp_path, Script(list(steps))) as gw:
        client, _ = await gw.client()
        yield gw, client, gw.sessions.get(await client.ready_session())


@pytest.mark.parametrize(
    ("cause", "state", "kept"), [("client", "refused", 0), ("shutdown", "queued", 1)]
)
async def test_what_comes_back_during_the_closing_is_returned_or_kept(tmp_path, cause, state, kept):
    async with opened(tmp_path, [{"gate": "g"}, {"text": "x"}]) as (gw, client, session):
        await client.call("prompt.submit", session_id=session.id, text="runs")
        await client.call("prompt.submit", session_id=session.id, text="waits")
        (waiting,) = session.queue
        session.queue.remove(waiting)
        session.scope.own("thing", "steered", lambda _: session.put_back([waiting]))
        gw.sessions.close_nowait(session, "closed", cause)
        told = await client.until("session.closed", session.id)
        assert told.payload["kept"] == kept
        assert told.payload["returned"] == ([] if kept else ["waits"])
        assert (await gw.store.turns(session.id))[1].state == state


async def test_an_end_that_could_not_be_stored_is_told_by_the_closing(tmp_path):
    async with opened(tmp_path, [{"gate": "g"}, {"text": "x"}]) as (gw, client, session):
        await client.call("prompt.submit", session_id=session.id, text="runs")
        gw.store.fail(StoreFull("No space."), after=1)  # the answer is stored, the end is not
        gw.picker.script.gate("g").open()
        await session.current.over.wait()
        await settle()
        assert "message.complete" not in [e.type for e in client.seen]
        gw.sessions.close_nowait(session, "closed", "client")
        done = await client.until("message.complete", session.id)
        assert done.payload["state"] == "completed"
        await client.until("session.closed", session.id)
        (turn,) = await gw.store.turns(session.id)
        assert turn.state == "completed"


async def test_a_closing_waits_a_while_for_the_end_of_the_turn_and_leaves_it_behind(
    tmp_path, monkeypatch
):
    goes_on = Gate()

    async def ignores(*_):
        while not goes_on.passed:
            with suppress(asyncio.CancelledError):
                await goes_on.park()
        return TurnEnd("completed", "stop")

    monkeypatch.setattr("tenure.sessions.actor.run", ignores)
    async with opened(tmp_path) as (gw, client, session):
        await client.call("prompt.submit", session_id=session.id, text="runs")
        await goes_on.wait_parked()
        turn = session.current
        gw.sessions.close_nowait(session, "closed", "user")
        await settle()
        early = turn.ended
        gw.ports.clock.advance(TURN_GRACE_S)
        await settle()
        left, live = turn.ended, turn.recorder.live
        goes_on.release()
        assert (early, left, live) == (False, True, False)
        done = await client.until("message.complete", session.id)
        assert (done.payload["state"], done.payload["cause"]) == ("interrupted", "user")
        await client.until("session.closed", session.id)


async def test_a_close_is_answered_when_everything_is_free_and_ends_the_lease(tmp_path):
    async with opened(tmp_path) as (gw, client, session):
        gate = Gate()
        session.scope.own("thing", "slow", lambda _: gate.park())
        closing = gw.root.spawn(gw.sessions.close(session, "closed"), name="close").value
        await gate.wait_parked()
        await settle()
        answered = closing.done()
        gate.release()
        assert not answered
        await client.until("session.closed", session.id)
        holder, _ = gw.store._rows.leases[f"session:{session.id}"]
        assert holder == ""
        assert (await gw.store.session(session.id)).status == "closed"


async def test_a_close_is_answered_before_its_end_is_stored(tmp_path):
    async with opened(tmp_path) as (gw, client, session):
        gw.store._gate = slow = Gate()
        closing = gw.root.spawn(gw.sessions.close(session, "closed"), name="close").value
        await slow.wait_parked()
        await settle()
        answered, closed = closing.done(), session.closing.done()
        slow.release()
        assert (answered, closed) == (True, False)
        await client.until("session.closed", session.id)


async def test_an_unloading_is_no_end(tmp_path):
    async with opened(tmp_path) as (gw, client, session):
        gw.sessions.unload(session, "a test")
        await asyncio.shield(session.closing)
        await settle()
        assert (await gw.store.session(session.id)).status == "idle"
        kinds = [
            row.kind for row in await gw.store.events(session.id, epoch=1, after_seq=0, limit=100)
        ]
        assert "session.closed" not in kinds
        await client.call("session.resume", session_id=session.id)
