"""session.detach: stop listening; the session goes on."""

from __future__ import annotations

import pytest

from tenure.testing.clock import settle


async def test_nothing_more_is_heard_and_the_session_goes_on(rig):
    session = await rig.session(close_on_disconnect=True)
    other, _ = await rig.gateway.client()
    await other.call("session.attach", session_id=session)
    assert await rig.call("session.detach", session_id=session) == {"detached": True}
    assert await rig.call("session.detach", session_id=session) == {"detached": False}
    await other.call("prompt.submit", session_id=session, text="hi")
    await other.until("message.complete", session)
    await rig.call("session.attach", session_id=session)
    await rig.turn(session)
    heard = [e.seq for e in rig.client.seen if e.session_id == session and e.seq]
    assert heard == [3, 4]


async def test_a_late_detach_does_not_end_a_newer_attachment(rig):
    session = await rig.session()
    first = (await rig.call("session.attach", session_id=session))["attachment"]
    await rig.call("session.detach", session_id=session, attachment=first)
    await rig.call("session.attach", session_id=session)
    answer = await rig.call("session.detach", session_id=session, attachment=first)
    assert answer == {"detached": False}
    assert len(rig.live(session).attachments) == 1


async def test_guards(rig):
    await rig.refuses_strangers("session.detach")
    await rig.refuses_wrong_types("session.detach", session_id="x")


@pytest.mark.parametrize(
    ("role", "flag", "stays"),
    [("owner", True, False), ("owner", False, True), ("viewer", True, True)],
)
async def test_a_connection_that_is_lost_takes_along_what_it_owned_and_asked_to(
    rig, role, flag, stays
):
    session = await rig.session()
    other, scope = await rig.gateway.client()
    await other.call("session.attach", session_id=session, role=role, close_on_disconnect=flag)
    await rig.call("session.detach", session_id=session)
    await scope.close()
    await settle(40)
    assert (rig.gateway.sessions.find(session) is not None) == stays
