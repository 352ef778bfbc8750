"""terminal.resize: tell the width, or a terminal of the session another size."""

from __future__ import annotations

import pytest

from tenure.errors import NotFound


async def test_a_client_tells_its_own_width(rig):
    assert await rig.call("terminal.resize", cols=132) == {"cols": 132}
    session = await rig.session()
    assert await rig.call("terminal.resize", session_id=session, cols=132) == {"cols": 132}
    await rig.refuses_wrong_types("terminal.resize")


async def test_a_terminal_gets_another_size(rig):
    session = await rig.session()
    opened = await rig.call("terminal.open", session_id=session, command="read; stty size")
    one = {"session_id": session, "terminal_id": opened["terminal_id"]}
    await rig.call("terminal.resize", **one, cols=99, rows=5_000)
    await rig.call("terminal.write", **one, text="\r")
    text = ""
    while "1000 99" not in text:
        text = (await rig.call("terminal.read", **one, cursor=2, wait_s=60))["text"]
    with pytest.raises(NotFound, match="no terminal 't9'"):
        await rig.call("terminal.resize", session_id=session, terminal_id="t9", cols=1)
