"""session.resume: a live session, or a stored one."""

from __future__ import annotations

import pytest

from tenure.errors import NotFound


async def test_a_stored_session_is_opened_again(rig):
    session = await rig.session(title="Of old")
    await rig.turn(session, "remember")
    await rig.call("session.close", session_id=session)
    for ref in (session, "Of old"):
        resumed = await rig.call("session.resume", session_id=ref)
        assert resumed["session_id"] == resumed["resumed"] == resumed["session_key"] == session
        assert [m["text"] for m in resumed["messages"]] == ["remember", "First answer."]
        assert resumed["message_count"] == 2 and resumed["running"] is False
    assert resumed["epoch"] == 2
    assert (await rig.turn(session))["state"] == "completed"


@pytest.mark.parametrize("steps", [[[{"text": "Half "}, {"gate": "g"}]]])
async def test_a_running_turn_is_shown_to_whoever_comes_late(rig, steps):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="go")
    await rig.client.until("message.delta")
    late, _ = await rig.gateway.client()
    resumed = await late.call("session.resume", session_id=session)
    assert resumed["running"] and resumed["status"] == "working"
    assert [message["text"] for message in resumed["messages"]] == ["go"], "and nowhere else:"
    assert resumed["inflight"] == {"user": "", "assistant": "Half ", "streaming": True}
    resumed = await late.call("session.resume", session_id=session, omit_messages=True)
    assert resumed["inflight"] == {"user": "go", "assistant": "Half ", "streaming": True}


async def test_what_is_not_there_or_closing(rig):
    with pytest.raises(NotFound, match="No session is called"):
        await rig.call("session.resume", session_id="nothing of the kind")
    await rig.refuses_strangers("session.resume")
    await rig.refuses_wrong_types("session.resume", session_id="x")
