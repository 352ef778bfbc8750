"""prompt.edit: an earlier prompt in other words."""

from __future__ import annotations

import pytest

from tenure.errors import NotFound, TooLarge


async def test_what_came_after_is_taken_back(rig):
    session = await rig.session()
    first = await rig.turn(session, "one")
    await rig.turn(session, "two")
    again = await rig.call(
        "prompt.edit", session_id=session, turn_id=first["turn_id"], text="won", key="k"
    )
    end = (await rig.client.until("message.complete", session)).payload
    assert end["turn_id"] == again["turn_id"] and end["text"] == "Third answer."
    texts = [row.message.text for row in await rig.gateway.store.history(session)]
    assert texts == ["won", "Third answer."]
    with pytest.raises(NotFound, match="not in the history"):
        await rig.call("prompt.edit", session_id=session, turn_id=first["turn_id"], text="x")


async def test_the_terminal_clients_way(rig):
    session = await rig.session()
    await rig.turn(session, "one")
    await rig.turn(session, "two")
    await rig.call("prompt.submit", session_id=session, text="deux", truncate_before_user_ordinal=1)
    await rig.client.until("message.complete", session)
    texts = [row.message.text for row in await rig.gateway.store.history(session)]
    assert texts == ["one", "First answer.", "deux", "Third answer."]
    with pytest.raises(NotFound, match="no prompt 9"):
        await rig.call(
            "prompt.submit", session_id=session, text="x", truncate_before_user_ordinal=9
        )


async def test_guards(rig):
    await rig.refuses_strangers("prompt.edit", turn_id="t", text="x")
    await rig.refuses_wrong_types("prompt.edit", session_id="x", turn_id="t", text="x")


async def test_what_is_sent_again_takes_nothing_back_again(rig):
    session = await rig.session()
    first = await rig.turn(session, "one")
    edits = (
        ("prompt.edit", {"turn_id": first["turn_id"], "text": "won", "key": "e"}),
        ("prompt.submit", {"text": "own", "key": "s", "truncate_before_user_ordinal": 0}),
    )
    for method, params in edits:
        receipt = await rig.call(method, session_id=session, **params)
        await rig.client.until("message.complete", session)
        stored = await rig.gateway.store.history(session)
        again = await rig.call(method, session_id=session, **params)
        assert (again["turn_id"], again["duplicate"]) == (receipt["turn_id"], True)
        assert await rig.gateway.store.history(session) == stored


async def test_a_text_that_cannot_be_sent_takes_nothing_back(rig):
    session = await rig.session()
    first = await rig.turn(session, "one")
    before = await rig.gateway.store.history(session)
    long = {"session_id": session, "text": "x" * (4 * 1024 * 1024 + 1)}
    with pytest.raises(TooLarge):
        await rig.call("prompt.edit", turn_id=first["turn_id"], **long)
    with pytest.raises(TooLarge):
        await rig.call("prompt.submit", truncate_before_user_ordinal=0, **long)
    assert await rig.gateway.store.history(session) == before
