"""session.activate: attach to a live session."""

from __future__ import annotations


async def test_another_client_hears_what_follows(rig):
    session = await rig.session()
    other, _ = await rig.gateway.client()
    live = await other.call("session.activate", session_id=session)
    assert live["session_id"] == session and live["status"] == "idle"
    await rig.call("prompt.submit", session_id=session, text="hi")
    assert (await other.until("message.complete", session)).payload["text"] == "First answer."


async def test_guards(rig):
    await rig.refuses_strangers("session.activate")
    await rig.refuses_wrong_types("session.activate", session_id="x")
