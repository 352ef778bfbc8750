"""prompt.queue.list: what waits, in order."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("steps", [[[{"gate": "g"}, {"text": "One."}]]])
async def test_what_waits(rig, steps):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="runs")
    for text in ("a", "b"):
        receipt = await rig.call("prompt.submit", session_id=session, text=text)
        assert receipt["status"] == "queued"
    listed = await rig.call("prompt.queue.list", session_id=session)
    assert [(e["text"], e["position"], e["steered"]) for e in listed["entries"]] == [
        ("a", 1, False),
        ("b", 2, False),
    ]
    assert listed["entries"][1]["turn_id"] == receipt["turn_id"]
    told = (await rig.client.until("prompt.queue", session)).payload["entries"]
    assert [e["text"] for e in told] == ["a"]


async def test_guards(rig):
    await rig.refuses_strangers("prompt.queue.list")
    await rig.refuses_wrong_types("prompt.queue.list", session_id="x")
