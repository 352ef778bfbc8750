"""session.delete: remove a session with its history."""

from __future__ import annotations

import pytest

from support.rpc import STRANGER
from tenure.errors import NotFound


async def test_a_live_one_and_a_stored_one(rig):
    live, stored = await rig.session(), await rig.session()
    await rig.turn(live)
    await rig.call("session.close", session_id=stored)
    for session in (live, stored):
        assert await rig.call("session.delete", session_id=session) == {"deleted": session}
        assert await rig.gateway.store.session(session) is None
        assert await rig.gateway.store.history(session) == []
    assert (await rig.call("session.list"))["sessions"] == []
    with pytest.raises(NotFound):
        await rig.call("session.delete", session_id=live)


async def test_guards(rig):
    with pytest.raises(NotFound, match="No session"):
        await rig.call("session.delete", session_id=STRANGER)
    await rig.refuses_wrong_types("session.delete", session_id="x")
