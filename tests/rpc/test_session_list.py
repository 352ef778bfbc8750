"""session.list: stored sessions, newest use first."""

from __future__ import annotations

import pytest


async def test_newest_use_first_and_no_more_than_asked_for(rig):
    ids = []
    for n in range(3):
        ids.append(await rig.session(title=f"No. {n}"))
        rig.gateway.ports.clock.advance(10)
    await rig.turn(ids[0])
    rows = (await rig.call("session.list", limit=2))["sessions"]
    assert [r["title"] for r in rows] == ["No. 0", "No. 2"]
    assert rows[0]["message_count"] == 2 and rows[0]["preview"] == "hi"
    assert {"id", "started_at", "last_active", "source", "status"} <= set(rows[0])


@pytest.mark.parametrize("limit", [0, -5, 10**12])
async def test_an_odd_limit_is_bounded(rig, limit):
    await rig.session()
    assert len((await rig.call("session.list", limit=limit))["sessions"]) == 1


async def test_those_in_which_nothing_was_said_may_be_left_out(rig):
    said = await rig.session()
    await rig.turn(said)
    empty = await rig.session()
    assert [r["id"] for r in (await rig.call("session.list", said=True))["sessions"]] == [said]
    assert {r["id"] for r in (await rig.call("session.list"))["sessions"]} == {said, empty}


async def test_wrong_types(rig):
    await rig.refuses_wrong_types("session.list")
