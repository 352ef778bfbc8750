"""rollback.list: as the terminal client reads it, newest first."""

from __future__ import annotations

import pytest


@pytest.fixture
def steps():
    write = {"call": {"name": "write", "arguments": {"path": "a.txt", "content": "one"}}}
    return [write, {"text": "Wrote."}, write, {"text": "Wrote again."}]


async def test_newest_first_with_time_and_words(rig):
    session = await rig.session(auto_approve=True)
    assert await rig.call("rollback.list", session_id=session) == {
        "enabled": True,
        "checkpoints": [],
    }
    await rig.turn(session, "first")
    await rig.turn(session, "second")
    rows = (await rig.call("rollback.list", session_id=session))["checkpoints"]
    assert [row["message"].split(" (")[0] for row in rows] == ["second", "first"]
    assert all(len(row["hash"]) == 12 and row["timestamp"][:2] == "20" for row in rows)
    shown = await rig.call("slash.exec", session_id=session, command="/rollback")
    assert shown["output"].splitlines()[0].startswith(f"  2  {rows[0]['hash']}")


async def test_guards(rig):
    await rig.refuses_strangers("rollback.list")
    await rig.refuses_wrong_types("rollback.list", session_id="x")
