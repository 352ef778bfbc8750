"""session.close: end the resources, keep the history."""

from __future__ import annotations


async def test_closed_announced_and_kept(rig):
    session = await rig.session()
    await rig.turn(session)
    assert await rig.call("session.close", session_id=session) == {"closed": True}
    event = await rig.client.until("session.closed", session)
    assert event.payload == {"reason": "closed by a client", "returned": [], "failures": 0}
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
