"""rollback.restore: as the terminal client calls it, and /rollback."""

from __future__ import annotations

import pytest


@pytest.fixture
def steps():
    write = {"call": {"name": "write", "arguments": {"path": "a.txt", "content": "new\n"}}}
    return [write, {"text": "Wrote."}]


async def test_everything_one_file_and_by_slash_command(rig, tmp_path):
    (tmp_path / "a.txt").write_text("old\n")
    session = await rig.session(auto_approve=True)
    await rig.turn(session, "write")
    (row,) = (await rig.call("rollback.list", session_id=session))["checkpoints"]
    done = await rig.call("rollback.restore", session_id=session, hash=row["hash"][:10])
    assert done["success"] and done["restored_to"] == row["hash"] and not done["error"]
    assert done["message"].startswith("1 restored, 0 removed; /rollback ")
    assert (tmp_path / "a.txt").read_text() == "old\n"
    undo = await rig.call("slash.exec", session_id=session, command=f"/rollback {done['undo']}")
    assert undo["output"].startswith("1 restored") and (tmp_path / "a.txt").read_text() == "new\n"
    one = await rig.call(
        "rollback.restore", session_id=session, hash=row["hash"], file_path="a.txt"
    )
    assert one["success"] and (tmp_path / "a.txt").read_text() == "old\n"


async def test_what_cannot_be_given_back_is_a_failure_in_words(rig, tmp_path):
    (tmp_path / "a.txt").write_text("old\n")
    session = await rig.session(auto_approve=True)
    await rig.turn(session, "write")
    for blob in (tmp_path / "home" / "checkpoints" / "blobs").rglob("*"):
        if blob.is_file() and blob.read_bytes() == b"old\n":
            blob.write_bytes(b"rot\n")
    done = await rig.call("rollback.restore", session_id=session, hash="1")
    assert not done["success"] and "damaged" in done["error"]


async def test_guards(rig):
    await rig.refuses_strangers("rollback.restore", hash="1")
    await rig.refuses_wrong_types("rollback.restore", session_id="x", hash="1")
