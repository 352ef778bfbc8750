"""session.create: a session at once, its agent after."""

from __future__ import annotations

import pytest

from tenure.errors import BadValue, NotFound


async def test_the_answer_comes_at_once_and_the_agent_after(rig, tmp_path):
    opened = await rig.call("session.create", cols=100, title="A title")
    assert opened["session_id"] == opened["stored_session_id"]
    assert opened["messages"] == [] and opened["message_count"] == 0
    assert opened["info"]["cwd"] == str(tmp_path) and opened["info"]["title"] == "A title"
    info = (await rig.client.until("session.info", opened["session_id"])).payload
    assert info["lazy"] is False and info["model"] == "scripted:test"
    assert "shell" in info["tools"]["default"]
    row = await rig.gateway.store.session(opened["session_id"])
    assert (row.title, row.status) == ("A title", "open")


async def test_a_history_to_begin_with(rig):
    seed = [{"role": "user", "content": "one"}, {"role": "assistant", "text": "two"}]
    opened = await rig.call("session.create", messages=seed)
    assert [m["text"] for m in opened["messages"]] == ["one", "two"]
    with pytest.raises(BadValue, match=r"messages\[1\]"):
        await rig.call("session.create", messages=[seed[0], {"role": "tool"}])


@pytest.mark.parametrize("cwd", ["relative", "/does/not/exist", "/etc/passwd", "/tmp\0x"])
async def test_a_working_directory_that_is_none(rig, cwd):
    with pytest.raises(NotFound, match="no folder"):
        await rig.call("session.create", cwd=cwd)
    assert len(rig.gateway.sessions) == 0


async def test_wrong_types(rig):
    await rig.refuses_wrong_types("session.create")


async def test_a_title_is_one_line(rig):
    opened = await rig.call("session.create", title="a\n b" + "x" * 1000)
    stored = await rig.gateway.store.session(opened["session_id"])
    assert stored.title == ("a b" + "x" * 1000)[:200]
