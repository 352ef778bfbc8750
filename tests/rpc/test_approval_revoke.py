"""approval.revoke: what was allowed is asked again, at once."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import NotFound
from tenure.sessions.grants import Grants


@pytest.fixture
def steps():
    call = {"call": {"name": "shell", "arguments": {"command": "make all"}}}
    return [call, {"text": "Done."}] * 6


async def allowed(rig, choice):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="go")
    await rig.client.until("approval.request", session)
    await rig.call("approval.respond", session_id=session, choice=choice)
    await rig.client.until("message.complete", session)
    return session


async def asks(rig, session) -> bool:
    """Whether the next turn asks; it is interrupted then."""
    await rig.call("prompt.submit", session_id=session, text="again")
    while True:
        event = await rig.client.next_event()
        if event.session_id == session and event.type == "approval.request":
            await rig.call("session.interrupt", session_id=session)
            await rig.client.until("message.complete", session)
            return True
        if event.session_id == session and event.type == "message.complete":
            return False


async def test_what_was_allowed_always(rig, tmp_path):
    session = await allowed(rig, "always")
    other = await rig.session()
    assert not await asks(rig, other)
    (grant,) = (await rig.call("approval.list"))["grants"]
    assert await rig.call("approval.revoke", id=grant["id"]) == {"revoked": grant["id"]}
    assert Grants.load(tmp_path / "grants.json").rules == ()
    assert await asks(rig, session) and await asks(rig, other)
    with pytest.raises(NotFound, match="approvals list"):
        await rig.call("approval.revoke", id=grant["id"])


async def test_what_was_allowed_for_a_session(rig):
    session = await allowed(rig, "session")
    assert not await asks(rig, session)
    (grant,) = (await rig.call("approval.list", session_id=session))["grants"]
    with pytest.raises(NotFound):  # not without naming the session
        await rig.call("approval.revoke", id=grant["id"])
    await rig.call("approval.revoke", id=grant["id"], session_id=session)
    assert await asks(rig, session)
    await rig.call("session.close", session_id=session)
    await rig.call("session.resume", session_id=session)
    assert (await rig.call("approval.list", session_id=session))["grants"] == []


async def test_two_take_back_the_same_at_one_moment(rig):
    session = await allowed(rig, "session")
    (grant,) = (await rig.call("approval.list", session_id=session))["grants"]
    revoke, spawn = rig.live(session).questions.revoke, rig.gateway.root.spawn
    calls = [spawn(revoke(grant["id"]), name="revoke").value for _ in "ab"]
    await asyncio.wait(calls)
    assert [call.result() for call in calls] == [None, None]
    assert await asks(rig, session)


async def test_guards(rig):
    with pytest.raises(NotFound):
        await rig.call("approval.revoke", id="grant_0")
    await rig.refuses_wrong_types("approval.revoke", id="x")
