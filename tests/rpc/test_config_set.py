"""config.set: change a setting of a session."""

from __future__ import annotations

import pytest

from tenure.errors import BadValue, SessionBusy
from tenure.testing.gates import Gate


async def test_the_model_is_changed_and_history_stays(rig):
    session = await rig.session()
    await rig.turn(session, "one")
    changed = await rig.call(
        "config.set", key="model", value="other --provider scripted", session_id=session
    )
    assert changed["value"] == "scripted:other" and changed["scope"] == "session"
    info = (await rig.client.until("session.info", session)).payload
    while info["lazy"]:
        info = (await rig.client.until("session.info", session)).payload
    await rig.client.until("session.info", session)
    assert rig.live(session).agent.model.ref == "scripted:other"
    await rig.turn(session, "two")
    assert (await rig.call("session.history", session_id=session))["count"] == 4
    assert (await rig.gateway.store.session(session)).model == "scripted:other"


@pytest.mark.parametrize("steps", [[[{"gate": "g"}]]])
async def test_not_while_a_turn_runs(rig, steps):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="one")
    with pytest.raises(SessionBusy, match="session busy"):
        await rig.call("config.set", key="model", value="scripted:other", session_id=session)


async def test_not_while_the_agent_is_built(rig):
    gate = rig.gateway.picker.gates["model"] = Gate()
    session = (await rig.call("session.create"))["session_id"]
    await gate.wait_parked()
    with pytest.raises(SessionBusy, match="model cannot change now"):
        await rig.call("config.set", key="model", value="scripted:other", session_id=session)
    gate.release()
    await rig.client.until("session.info", session)
    assert rig.gateway.picker.picks == 1


async def test_approvals_and_looks(rig):
    session = await rig.session()
    assert await rig.call("config.set", key="yolo", value="on", session_id=session) == {
        "key": "yolo",
        "value": "yes",
    }
    assert rig.live(session).questions.bypass == "config.set yolo"
    await rig.call("config.set", key="yolo", value=False, session_id=session)
    assert rig.live(session).questions.bypass == ""
    assert await rig.call("config.set", key="skin", value="x") == {"key": "skin", "value": "x"}
    with pytest.raises(BadValue, match="'foo' is no known provider"):
        await rig.call("config.set", key="model", value="foo:x", session_id=session)
    assert rig.live(session).wanted == "", "it keeps its own"
    with pytest.raises(BadValue, match="Name a model"):
        await rig.call("config.set", key="model", value="", session_id=session)
    await rig.refuses_strangers("config.set", key="model", value="scripted:x")
    await rig.refuses_wrong_types("config.set", key="x")
