"""terminal.write: type into a terminal."""

from __future__ import annotations

import pytest

from tenure.errors import NotFound, ToolError


async def test_what_is_typed_arrives(rig):
    session = await rig.session()
    opened = await rig.call("terminal.open", session_id=session, command="read a; echo got $a")
    one = {"session_id": session, "terminal_id": opened["terminal_id"]}
    assert await rig.call("terminal.write", **one, text="é\r") == {"bytes": 3}
    await rig.client.until("terminal.close", session)
    assert "got é" in (await rig.call("terminal.read", **one))["text"]


async def test_guards(rig):
    session = await rig.session()
    one = {"session_id": session, "terminal_id": "t1", "text": "x"}
    with pytest.raises(NotFound, match="there are: none"):
        await rig.call("terminal.write", **one)
    await rig.call("terminal.open", session_id=session, command="sleep 1000")
    with pytest.raises(ToolError, match="65536 bytes"):
        await rig.call("terminal.write", **{**one, "text": "x" * 70_000})
    await rig.refuses_strangers("terminal.write", terminal_id="t1", text="x")
    await rig.refuses_wrong_types("terminal.write", **one)
