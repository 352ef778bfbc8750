"""prompt.edit: an earlier prompt in other words."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tenure.errors import NotFound, TooLarge, TransportError
from tenure.testing.clock import settle

WRITE = {"call": {"name": "write", "arguments": {"path": "a.txt", "content": "new"}}}


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


@pytest.mark.parametrize("way", ["prompt.edit", "prompt.submit"])
async def test_a_client_that_is_lost_at_any_moment_loses_no_text(rig, way):
    ends = set()
    for steps in range(1, 40):
        session = await rig.session()
        first = await rig.turn(session, "one")
        editor, scope = await rig.gateway.client()
        named = {"turn_id": first["turn_id"]}
        params = named if way == "prompt.edit" else {"truncate_before_user_ordinal": 0}
        call = editor.call(way, session_id=session, text="won", **params)
        rig.gateway.root.spawn(_lost(call), name="lost")
        await settle(steps)
        await scope.close()
        await settle(60)
        stored = await rig.gateway.store.history(session)
        texts = [row.message.text for row in stored]
        assert texts in (["one", "First answer."], ["won", "Second answer."]), steps
        ends.add(texts[0])
    assert "won" in ends


async def _lost(call):
    with suppress(TransportError):
        await call


@pytest.mark.parametrize("steps", [[[WRITE], {"text": "Written."}, {"text": "Said."}]])
async def test_files_are_back_before_it_runs(rig, steps, tmp_path):
    (tmp_path / "a.txt").write_text("old")
    session = await rig.session(auto_approve=True)
    first = await rig.turn(session, "change it")
    assert (tmp_path / "a.txt").read_text() == "new"
    await rig.call(
        "prompt.edit", session_id=session, turn_id=first["turn_id"], text="leave it", files=True
    )
    await rig.client.until("message.complete", session)
    assert (tmp_path / "a.txt").read_text() == "old"


async def test_placeholders_of_pastes_are_replaced(rig):
    session = await rig.session()
    first = await rig.turn(session, "one")
    pasted = await rig.call("paste.collapse", text="long\ntext")
    text = f"see {pasted['placeholder']}"
    await rig.call("prompt.edit", session_id=session, turn_id=first["turn_id"], text=text)
    await rig.client.until("message.complete", session)
    assert (await rig.gateway.store.history(session))[0].message.text == "see long\ntext"
