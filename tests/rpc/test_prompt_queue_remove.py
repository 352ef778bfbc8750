"""prompt.queue.remove: take a prompt that waits out of the queue."""

from __future__ import annotations

import pytest

from tenure.errors import AlreadyRuns


@pytest.mark.parametrize("steps", [[[{"gate": "g"}, {"text": "One."}], {"text": "Two."}]])
async def test_it_never_runs_and_its_end_is_told(rig, steps):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="runs")
    out, stays = [
        (await rig.call("prompt.submit", session_id=session, text=text))["turn_id"]
        for text in ("out", "stays")
    ]
    left = await rig.call("prompt.queue.remove", session_id=session, turn_id=out)
    assert [e["turn_id"] for e in left["entries"]] == [stays]
    end = (await rig.client.until("message.complete", session)).payload
    assert (end["turn_id"], end["state"], end["cause"]) == (out, "refused", "removed")
    with pytest.raises(AlreadyRuns):
        await rig.call("prompt.queue.remove", session_id=session, turn_id=out)
    rig.gateway.picker.script.gate("g").open()
    for _ in range(2):
        await rig.client.until("message.complete", session)
    rows = await rig.gateway.store.turns(session)
    assert [(r.prompt, r.state) for r in rows] == [
        ("runs", "completed"),
        ("out", "refused"),
        ("stays", "completed"),
    ]


async def test_guards(rig):
    await rig.refuses_strangers("prompt.queue.remove", turn_id="t")
    await rig.refuses_wrong_types("prompt.queue.remove", session_id="x", turn_id="t")
