"""session.undo: take the last turns back."""

from __future__ import annotations

import pytest

from tenure.errors import NotFound, SessionBusy, StoreFull

WRITE = {"call": {"name": "write", "arguments": {"path": "a.txt", "content": "new"}}}


async def texts(rig, session):
    return [row.message.text for row in await rig.gateway.store.history(session)]


async def test_the_last_turn_is_gone_from_model_store_and_view(rig):
    session = await rig.session()
    await rig.turn(session, "one")
    second = await rig.turn(session, "two")
    done = await rig.call("session.undo", session_id=session)
    assert done == {"removed": 2, "turn_ids": [second["turn_id"]], "text": "two", "files": ""}
    told = (await rig.client.until("session.rewound", session)).payload
    assert told == {"first": 3, "removed": 2, "turn_ids": [second["turn_id"]]}
    assert await texts(rig, session) == ["one", "First answer."]
    assert (await rig.gateway.store.session(session)).message_count == 2
    await rig.turn(session, "three")
    request = rig.gateway.picker.script.requests[-1]
    assert [m.text for m in request.messages] == ["one", "First answer.", "three"]
    with pytest.raises(NotFound, match="only 2 turns"):
        await rig.call("session.undo", session_id=session, turns=3)
    assert len(await texts(rig, session)) == 4
    done = await rig.call("session.undo", session_id=session, turns=2)
    assert (done["removed"], done["text"]) == (4, "one")
    with pytest.raises(NotFound, match="nothing to undo"):
        await rig.call("session.undo", session_id=session)


@pytest.mark.parametrize("steps", [[[{"gate": "g"}, {"text": "Late."}]]])
async def test_not_while_something_runs(rig, steps):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="go")
    with pytest.raises(SessionBusy, match="session busy"):
        await rig.call("session.undo", session_id=session)


async def test_what_cannot_be_stored_is_not_undone(rig):
    session = await rig.session()
    await rig.turn(session, "one")
    rig.gateway.store.fail(StoreFull("No space is left."))
    with pytest.raises(StoreFull):
        await rig.call("session.undo", session_id=session)
    assert await texts(rig, session) == ["one", "First answer."]
    assert len(rig.live(session).journal.items) == 2 and rig.live(session).status == "idle"


@pytest.mark.parametrize("steps", [[[WRITE], {"text": "Written."}]])
async def test_with_the_files(rig, steps, tmp_path):
    (tmp_path / "a.txt").write_text("old")
    session = await rig.session(auto_approve=True)
    await rig.turn(session, "change it")
    assert (tmp_path / "a.txt").read_text() == "new"
    done = await rig.call("session.undo", session_id=session, files=True)
    assert "1 restored" in done["files"]
    assert (tmp_path / "a.txt").read_text() == "old"


@pytest.mark.parametrize("steps", [[[WRITE], {"text": "Written."}]])
async def test_files_that_were_made_stay_and_are_named(rig, steps, tmp_path):
    session = await rig.session(auto_approve=True)
    await rig.turn(session, "make it")
    shown = await rig.call("slash.exec", session_id=session, command="/undo files")
    assert "1 made since and left (a.txt)" in shown["output"]
    assert (tmp_path / "a.txt").exists()


@pytest.mark.parametrize("steps", [[[WRITE], {"text": "Written."}]])
async def test_files_that_cannot_be_given_back_are_told_and_the_undo_stands(
    rig, steps, monkeypatch
):
    async def fail(*_args, **_kwargs):
        raise StoreFull("No space is left.")

    session = await rig.session(auto_approve=True)
    await rig.turn(session, "make it")
    monkeypatch.setattr("tenure.rpc.handlers.rewriting.give_back", fail)
    done = await rig.call("session.undo", session_id=session, files=True)
    assert done["files"] == "The files were not given back: No space is left."
    assert await texts(rig, session) == []


async def test_an_unbuilt_session_stays_unbuilt(rig):
    session = await rig.session()
    await rig.turn(session, "one")
    await rig.call("session.close", session_id=session)
    await rig.call("session.attach", session_id=session, lazy=True)
    await rig.call("session.undo", session_id=session)
    assert rig.live(session).unbuilt and await texts(rig, session) == []


async def test_guards(rig):
    await rig.refuses_strangers("session.undo")
    await rig.refuses_wrong_types("session.undo", session_id="x")


async def test_with_the_files_where_none_was_changed(rig):
    session = await rig.session()
    await rig.turn(session, "only talk")
    done = await rig.call("session.undo", session_id=session, files=True)
    assert done["files"] == "These turns changed no files." and done["removed"] == 2
