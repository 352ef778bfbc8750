"""session.pin: on top of the list."""

from __future__ import annotations

import pytest

from tenure.errors import BadValue, NotFound


async def test_pinned_sessions_come_first_until_they_are_unpinned(rig):
    ids = []
    for _ in range(3):
        ids.append(await rig.session())
        rig.gateway.ports.clock.advance(10)
    marks = await rig.call("session.pin", session_id=ids[0])
    assert marks == {"session_id": ids[0], "pinned": True, "archived": False, "tags": []}
    rows = (await rig.call("session.list"))["sessions"]
    assert [row["id"] for row in rows] == [ids[0], ids[2], ids[1]]
    assert [row["pinned"] for row in rows] == [True, False, False]
    only = (await rig.call("session.list", pinned=True))["sessions"]
    assert [row["id"] for row in only] == [ids[0]]
    assert (await rig.call("session.most_recent"))["session_id"] == ids[0], "others are empty"
    await rig.call("session.pin", session_id=ids[0], pinned=False)
    rows = (await rig.call("session.list"))["sessions"]
    assert [row["id"] for row in rows] == ids[::-1]


@pytest.mark.parametrize("method", ["session.pin", "session.archive", "session.tag"])
async def test_closed_sessions_are_marked_too_and_strangers_are_told(rig, method):
    session = await rig.session()
    await rig.call("session.close", session_id=session)
    await rig.client.until("session.closed")
    assert (await rig.call(method, session_id=session))["session_id"] == session
    with pytest.raises(NotFound, match="No session 2020"):
        await rig.call(method, session_id="20200101_000000_00000000")
    with pytest.raises(BadValue, match="no session id"):
        await rig.call(method, session_id="../x")


async def test_wrong_types(rig):
    await rig.refuses_wrong_types("session.pin", session_id=await rig.session())
