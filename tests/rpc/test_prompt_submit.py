"""prompt.submit: run a prompt, or queue it."""

from __future__ import annotations

import pytest

from tenure.errors import BadValue, Conflict, StoreFull
from tenure.testing.clock import settle
from tenure.testing.gates import Gate


async def test_the_receipt_names_the_turn_and_its_place(rig):
    session = await rig.session()
    first = await rig.call("prompt.submit", session_id=session, text="one")
    assert first["status"] == "streaming" and "position" not in first
    done = (await rig.client.until("message.complete", session)).payload
    assert done["turn_id"] == first["turn_id"] and done["text"] == "First answer."


async def test_a_collapsed_paste_is_put_back(rig):
    session = await rig.session()
    placeholder = (await rig.call("paste.collapse", text="line\n" * 50))["placeholder"]
    await rig.turn(session, f"look at {placeholder} please")
    (item, _) = await rig.gateway.store.history(session)
    assert item.message.text == "look at " + "line\n" * 50 + " please"


async def test_guards(rig):
    await rig.refuses_strangers("prompt.submit", text="x")
    await rig.refuses_wrong_types("prompt.submit", session_id="x", text="x")
    assert [
        t for s in rig.gateway.sessions.live() for t in await rig.gateway.store.turns(s.id)
    ] == []


async def test_the_same_key_gets_the_same_receipt_however_often(rig):
    session = await rig.session()
    sent = {"session_id": session, "text": "one", "key": "k1"}
    store = rig.gateway.store
    store._gate = disk = Gate()
    calls = [
        rig.gateway.root.spawn(rig.call("prompt.submit", **sent), name="submit").value
        for _ in range(3)
    ]
    await disk.wait_parked()
    await settle()
    assert not any(call.done() for call in calls), "a duplicate counts no sooner than the first"
    disk.release()
    first, *again = [await call for call in calls]
    assert [a["turn_id"] for a in again] == [first["turn_id"]] * 2
    assert [a.get("duplicate") for a in (first, *again)] == [None, True, True]
    await rig.client.until("message.complete", session)
    rig.live(session).receipts._kept.clear()  # it is in the store, too
    late = await rig.call("prompt.submit", **sent)
    assert (late["turn_id"], late["duplicate"]) == (first["turn_id"], True)
    with pytest.raises(Conflict, match="another prompt"):
        await rig.call("prompt.submit", **{**sent, "text": "two"})
    assert (await rig.call("prompt.submit", **{**sent, "key": "k2"}))["turn_id"] != first["turn_id"]
    assert len(await rig.gateway.store.turns(session)) == 2


async def test_a_key_whose_prompt_was_not_stored_is_free(rig):
    session = await rig.session()
    sent = {"session_id": session, "text": "one", "key": "k1"}
    rig.gateway.store.fail(StoreFull("No space is left."))
    with pytest.raises(StoreFull):
        await rig.call("prompt.submit", **sent)
    assert "duplicate" not in await rig.call("prompt.submit", **sent)


@pytest.mark.parametrize("steps", [[[{"gate": "g"}], {"text": "Now."}, {"text": "Then."}]])
async def test_interrupt_as_policy_ends_what_runs_and_goes_first(rig, steps):
    session = await rig.session()
    set_to = await rig.call("config.set", session_id=session, key="busy", value="interrupt")
    assert set_to["value"] == "interrupt"
    with pytest.raises(BadValue, match="queue, steer or interrupt"):
        await rig.call("config.set", session_id=session, key="busy", value="ignore")
    await rig.call("prompt.submit", session_id=session, text="long")
    await rig.call("prompt.submit", session_id=session, text="waits", when_busy="queue")
    now = await rig.call("prompt.submit", session_id=session, text="now")
    assert (now["status"], now["position"]) == ("queued", 1)
    ends = [(await rig.client.until("message.complete", session)).payload for _ in range(3)]
    assert [(e["state"], e["text"]) for e in ends] == [
        ("interrupted", ""),
        ("completed", "Now."),
        ("completed", "Then."),
    ]
    assert ends[1]["turn_id"] == now["turn_id"]
    await rig.call("session.close", session_id=session)
    await rig.call("session.resume", session_id=session)
    kept = await rig.call("config.get", session_id=session, key="busy")
    assert kept["value"] == "interrupt"


@pytest.mark.parametrize("steps", [[[{"gate": "g"}, {"text": "Late."}]]])
async def test_a_key_whose_prompt_runs_stands_for_that_prompt(rig, steps):
    session = await rig.session()
    sent = {"session_id": session, "text": "one", "key": "k"}
    first = await rig.call("prompt.submit", **sent)
    again = await rig.call("prompt.submit", **sent)
    assert again["duplicate"] and again["turn_id"] == first["turn_id"]
    with pytest.raises(Conflict, match="another prompt"):
        await rig.call("prompt.submit", **{**sent, "text": "two"})
