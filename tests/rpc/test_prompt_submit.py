"""prompt.submit: run a prompt, or queue it."""

from __future__ import annotations


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
