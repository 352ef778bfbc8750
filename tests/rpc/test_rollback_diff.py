"""rollback.diff: as the terminal client reads it; the client shows ten characters of a name."""

from __future__ import annotations

import pytest


@pytest.fixture
def steps():
    write = {"call": {"name": "write", "arguments": {"path": "a.txt", "content": "one\n"}}}
    return [write, {"text": "Wrote."}]


async def test_by_the_beginning_of_its_name(rig):
    session = await rig.session(auto_approve=True)
    await rig.turn(session, "first")
    (row,) = (await rig.call("rollback.list", session_id=session))["checkpoints"]
    told = await rig.call("rollback.diff", session_id=session, hash=row["hash"][:10])
    assert told["stat"] == "created   a.txt" and "+one" in told["diff"]
    shown = await rig.call("slash.exec", session_id=session, command="/rollback diff 1")
    assert "+one" in shown["output"]


async def test_guards(rig):
    await rig.refuses_strangers("rollback.diff", hash="1")
    await rig.refuses_wrong_types("rollback.diff", session_id="x", hash="1")
