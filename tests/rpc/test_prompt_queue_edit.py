"""prompt.queue.edit: change a prompt that waits."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import AlreadyRuns, StoreFull, TooLarge
from tenure.sessions.prompts import edit_queued
from tenure.testing.clock import settle
from tenure.testing.gates import Gate


@pytest.mark.parametrize("steps", [[[{"gate": "g"}, {"text": "One."}], {"text": "Two."}]])
async def test_the_new_text_runs_and_is_stored(rig, steps):
    session = await rig.session()
    running = await rig.call("prompt.submit", session_id=session, text="runs")
    waiting = await rig.call("prompt.submit", session_id=session, text="draft")
    ref = {"session_id": session, "turn_id": waiting["turn_id"]}
    edited = await rig.call("prompt.queue.edit", **ref, text="final")
    assert [e["text"] for e in edited["entries"]] == ["final"]
    assert (await rig.gateway.store.turns(session))[1].prompt == "final"
    rig.gateway.store.fail(StoreFull("No space is left."))
    with pytest.raises(StoreFull):
        await rig.call("prompt.queue.edit", **ref, text="lost")
    with pytest.raises(TooLarge):
        await rig.call("prompt.queue.edit", **ref, text="x" * (4 * 1024 * 1024 + 1))
    with pytest.raises(AlreadyRuns, match="does not wait"):
        await rig.call("prompt.queue.edit", **{**ref, "turn_id": running["turn_id"]}, text="no")
    rig.gateway.picker.script.gate("g").open()
    for _ in range(2):
        await rig.client.until("message.complete", session)
    prompts = [i.message.text for i in rig.live(session).journal.items if i.message.role == "user"]
    assert prompts == ["runs", "final"]
    with pytest.raises(AlreadyRuns):
        await rig.call("prompt.queue.edit", **ref, text="too late")


@pytest.mark.parametrize("steps", [[[{"gate": "g"}, {"text": "One."}], {"text": "Two."}]])
async def test_what_could_not_be_stored_takes_back_nothing_that_was_written_since(rig, steps):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="runs")
    waiting = await rig.call("prompt.submit", session_id=session, text="draft")
    live, store = rig.live(session), rig.gateway.store
    store.fail(StoreFull("No space is left."))
    edits = [
        rig.gateway.root.spawn(edit_queued(live, waiting["turn_id"], text), name="edit").value
        for text in ("lost", "kept")
    ]
    await asyncio.wait(edits)
    assert [type(edit.exception()) for edit in edits] == [StoreFull, type(None)]
    in_memory = [turn.prompt for turn in live.queue]
    assert in_memory == [(await store.turns(session))[1].prompt] == ["kept"]


@pytest.mark.parametrize("steps", [[[{"gate": "g"}, {"text": "One."}], {"text": "Two."}]])
async def test_an_edit_that_fails_when_its_asker_has_gone_is_taken_back(rig, steps):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="runs")
    waiting = await rig.call("prompt.submit", session_id=session, text="draft")
    live, store = rig.live(session), rig.gateway.store
    store._gate = Gate()
    store.fail(StoreFull("No space is left."))
    edit = rig.gateway.root.spawn(edit_queued(live, waiting["turn_id"], "lost"), name="edit")
    await store._gate.wait_parked()
    await edit.release()
    store._gate.release()
    await settle()
    assert [turn.prompt for turn in live.queue] == ["draft"]


async def test_guards(rig):
    await rig.refuses_strangers("prompt.queue.edit", turn_id="t", text="x")
    await rig.refuses_wrong_types("prompt.queue.edit", session_id="x", turn_id="t", text="x")
