"""session.active_list: live sessions."""

from __future__ import annotations

from tenure.testing.clock import settle
from tenure.testing.gates import Gate


async def test_what_is_live_and_how_it_does(rig):
    one, two = await rig.session(), await rig.session(title="Two")
    rows = (await rig.call("session.active_list", current_session_id=two))["sessions"]
    assert [(r["id"], r["current"], r["status"]) for r in rows] == [
        (one, False, "idle"),
        (two, True, "idle"),
    ]
    await rig.call("session.close", session_id=one)
    assert [r["title"] for r in (await rig.call("session.active_list"))["sessions"]] == ["Two"]


async def test_a_client_that_was_told_of_an_unbuilt_agent_is_told_again_once(rig):
    opened = await rig.call("session.create")
    assert opened["info"]["lazy"]
    session = opened["session_id"]
    await rig.client.until("session.info", session)
    await rig.call("session.active_list", current_session_id=session)
    again = await rig.client.until("session.info", session)
    assert again.payload["lazy"] is False
    await rig.call("session.active_list", current_session_id=session)
    await rig.turn(session)
    told = [e.type for e in rig.client.seen]
    assert told[: told.index("message.start")].count("session.info") == 2


async def test_a_poll_for_a_session_that_has_ended_meanwhile_is_answered(rig):
    session = (await rig.call("session.create"))["session_id"]
    await rig.call("session.close", session_id=session)
    found = await rig.call("session.active_list", current_session_id=session)
    assert found == {"sessions": []}


async def test_a_poll_while_the_agent_is_built_does_not_count(rig):
    gate = rig.gateway.picker.gates["model"] = Gate()
    session = (await rig.call("session.create"))["session_id"]
    await gate.wait_parked()
    await rig.call("session.active_list", current_session_id=session)
    await rig.call(
        "session.most_recent"
    )  # what the poll had said would have come before its answer
    assert not [e for e in rig.client._events if e.type == "session.info"]
    gate.release()
    await rig.client.until("session.info", session)
    await rig.call("session.active_list", current_session_id=session)
    await settle()
    (again,) = (e for e in rig.client._events if e.type == "session.info")
    assert again.payload["lazy"] is False


async def test_wrong_types(rig):
    await rig.refuses_wrong_types("session.active_list")
