"""session.most_recent: the session used last."""

from __future__ import annotations


async def test_none_then_the_last_one_used(rig):
    assert (await rig.call("session.most_recent"))["session_id"] is None
    first = await rig.session(title="First")
    rig.gateway.ports.clock.advance(5)
    await rig.session(title="Second")
    assert (await rig.call("session.most_recent"))["title"] == "Second"
    rig.gateway.ports.clock.advance(5)
    await rig.turn(first)
    assert (await rig.call("session.most_recent"))["session_id"] == first


async def test_one_that_was_only_opened_is_not_meant(rig):
    first = await rig.session()
    await rig.turn(first)
    rig.gateway.ports.clock.advance(5)
    await rig.session()
    assert (await rig.call("session.most_recent"))["session_id"] == first
