"""session.history: all messages, live or stored."""

from __future__ import annotations

import pytest

from support.rpc import STRANGER
from tenure.errors import NotFound, TenureError


async def test_live_and_stored_read_the_same(rig):
    session = await rig.session()
    await rig.turn(session, "one")
    live = await rig.call("session.history", session_id=session)
    await rig.call("session.close", session_id=session)
    assert await rig.call("session.history", session_id=session) == live
    assert live["count"] == 2
    assert [(m["role"], m["text"]) for m in live["messages"]] == [
        ("user", "one"),
        ("assistant", "First answer."),
    ]


@pytest.mark.parametrize("session", ["../x", "x" * 5000, "", "a\0b"])
async def test_an_id_that_is_none(rig, session):
    with pytest.raises(TenureError):
        await rig.call("session.history", session_id=session)


async def test_guards(rig):
    with pytest.raises(NotFound):
        await rig.call("session.history", session_id=STRANGER)
    await rig.refuses_wrong_types("session.history", session_id="x")
