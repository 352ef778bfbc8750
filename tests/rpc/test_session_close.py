"""session.close: end the resources, keep the history."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from tenure.errors import StoreFull
from tenure.models.script import Script
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.store import MemoryStore


async def test_closed_announced_and_kept(rig):
    session = await rig.session()
    await rig.turn(session)
    assert await rig.call("session.close", session_id=session) == {"closed": True}
    event = await rig.client.until("session.closed", session)
    assert event.payload == {
        "reason": "closed by a client", "returned": [], "kept": 0, "failures": 0,
    }  # fmt: skip
    row = await rig.gateway.store.session(session)
    assert (row.status, row.reason) == ("closed", "closed by a client")
    assert rig.gateway.census(session) == []
    assert len(await rig.gateway.store.history(session)) == 2


async def test_closing_what_is_gone_or_closing_is_no_error(rig):
    session = await rig.session()
    await rig.call("session.close", session_id=session)
    assert await rig.call("session.close", session_id=session) == {"closed": False}
    assert await rig.call("session.close", session_id="nothing") == {"closed": False}


async def test_wrong_types(rig):
    await rig.refuses_wrong_types("session.close", session_id="x")


@asynccontextmanager
async def closing_behind_a_slow_disk(tmp_path):
    """A session whose close was answered while nothing can be committed."""
    store = MemoryStore()
    async with open_test_gateway(tmp_path, Script([]), store=store) as gw:
        client, _ = await gw.client()
        session = await client.ready_session()
        store._gate = gate = Gate()
        assert await client.call("session.close", session_id=session) == {"closed": True}
        assert gw.census(session) == []
        try:
            yield gw, client, session, gate
        finally:
            gate.release()


async def held_back(gw, gate, call):
    """`call` as a task that does not end before the gate is released."""
    task = gw.root.spawn(call, name="call").value
    await gate.wait_parked()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_whoever_asks_for_the_last_one_waits_for_the_rows(tmp_path):
    async with closing_behind_a_slow_disk(tmp_path) as (gw, client, _session, gate):
        call = await held_back(gw, gate, client.call("session.most_recent"))
        gate.release()
        assert await call


async def test_whoever_reads_rows_after_the_answer_waits_for_them(tmp_path):
    async with closing_behind_a_slow_disk(tmp_path) as (gw, client, session, gate):
        call = await held_back(gw, gate, client.call("session.list"))
        gate.release()
        (row,) = (await call)["sessions"]
        assert (row["id"], row["status"]) == (session, "closed")


async def test_a_resume_waits_for_the_closing_and_opens_anew(tmp_path):
    async with closing_behind_a_slow_disk(tmp_path) as (gw, client, session, gate):
        call = await held_back(gw, gate, client.call("session.resume", session_id=session))
        gate.release()
        resumed = await call
        assert (resumed["session_id"], resumed["epoch"]) == (session, 2)
        assert (await gw.store.session(session)).status == "open"


async def test_an_end_that_could_not_be_stored_is_told(rig):
    session = await rig.session()
    rig.gateway.store.fail(StoreFull("No space is left."))
    assert (await rig.call("session.close", session_id=session))["closed"]
    told = (await rig.client.until("notification.show", session)).payload
    assert told["level"] == "error" and "could not be stored (No space is left.)" in told["text"]
