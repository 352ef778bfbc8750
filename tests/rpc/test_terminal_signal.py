"""terminal.signal: what keys send reaches the foreground job, the rest everything."""

from __future__ import annotations

import pytest

from tenure.errors import ToolError


async def test_an_interrupt_ends_the_foreground_job_and_not_the_shell(rig):
    session = await rig.session()
    opened = await rig.call("terminal.open", session_id=session)
    one = {"session_id": session, "terminal_id": opened["terminal_id"]}
    await rig.call("terminal.write", **one, text="echo rea''dy; cat\r")
    page = await until(rig, one, "ready")
    await rig.call("terminal.write", **one, text="mirror\r")
    await until(rig, one, "mirror\r\nmirror")
    assert await rig.call("terminal.signal", **one, signal="INT") == {
        "terminal_id": opened["terminal_id"]
    }
    await until(rig, one, "mirror\r\n\r\n")  # a new prompt
    await rig.call("terminal.write", **one, text="echo after=$?\r")
    page = await until(rig, one, "after=130")
    assert page["running"]


async def test_a_kill_ends_it(rig):
    session = await rig.session()
    opened = await rig.call("terminal.open", session_id=session, command="exec sleep 1000")
    one = {"session_id": session, "terminal_id": opened["terminal_id"]}
    await rig.call("terminal.signal", **one, signal="KILL")
    closed = await rig.client.until("terminal.close", session)
    assert closed.payload["returncode"] == -9
    await rig.call("terminal.signal", **one, signal="KILL")  # nothing is there any more


async def test_guards(rig):
    session = await rig.session()
    await rig.call("terminal.open", session_id=session, command="true")
    one = {"session_id": session, "terminal_id": "t1", "signal": "NONE"}
    with pytest.raises(ToolError, match="is no signal"):
        await rig.call("terminal.signal", **one)
    await rig.refuses_strangers("terminal.signal", terminal_id="t1", signal="INT")
    await rig.refuses_wrong_types("terminal.signal", **one)


async def until(rig, one, text):
    page, said, cursor = None, "", 0
    while text not in said:
        page = await rig.call("terminal.read", **one, cursor=cursor, wait_s=60)
        said, cursor = said + page["text"], page["cursor"]
    return page
