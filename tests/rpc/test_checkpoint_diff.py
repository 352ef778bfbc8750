"""checkpoint.diff: what has changed since."""

from __future__ import annotations

import pytest


@pytest.fixture
def steps():
    write = {"call": {"name": "write", "arguments": {"path": "a.txt", "content": "one\ntwo\n"}}}
    return [write, {"text": "Wrote."}]


async def test_what_has_changed_since(rig, tmp_path):
    (tmp_path / "a.txt").write_text("one\n")
    session = await rig.session(auto_approve=True)
    await rig.turn(session, "write")
    told = await rig.call("checkpoint.diff", session_id=session)
    assert told["changes"] == [{"path": "a.txt", "what": "modified"}] and told["count"] == 1
    assert "+two" in told["diff"] and "modified  a.txt" in told["stat"] and not told["truncated"]
    assert (await rig.call("checkpoint.diff", session_id=session, path="other"))["count"] == 0


async def test_guards(rig):
    await rig.refuses_strangers("checkpoint.diff")
    await rig.refuses_wrong_types("checkpoint.diff", session_id="x")
