"""session.interrupt: end the running turn, keep the session."""

from __future__ import annotations

import pytest


@pytest.fixture
def steps():
    return [[{"text": "Half "}, {"gate": "g"}], {"text": "Whole."}]


async def test_the_turn_ends_and_the_queue_goes_on(rig):
    session = await rig.session()
    assert await rig.call("session.interrupt", session_id=session) == {"status": "idle"}
    await rig.call("prompt.submit", session_id=session, text="one")
    await rig.call("prompt.submit", session_id=session, text="two")
    await rig.client.until("message.delta")
    assert await rig.call("session.interrupt", session_id=session) == {"status": "interrupted"}
    cut = (await rig.client.until("message.complete", session)).payload
    assert (cut["state"], cut["status"], cut["cause"], cut["text"]) == (
        "interrupted",
        "interrupted",
        "user",
        "Half ",
    )
    assert (await rig.client.until("message.complete", session)).payload["text"] == "Whole."


async def test_guards(rig):
    await rig.refuses_strangers("session.interrupt")
    await rig.refuses_wrong_types("session.interrupt", session_id="x")
