"""terminal.close: end all that runs on a terminal, and forget it."""

from __future__ import annotations

import pytest

from tenure.errors import NotFound


async def test_everything_on_it_ends(rig):
    session = await rig.session()
    command = "trap '' HUP TERM INT; echo rea''dy; sleep 1001 & sleep 1002"
    opened = await rig.call("terminal.open", session_id=session, command=command)
    one = {"session_id": session, "terminal_id": opened["terminal_id"]}
    page = await rig.call("terminal.read", **one, wait_s=60)
    while "ready" not in page["text"]:
        page = await rig.call("terminal.read", **one, wait_s=60)
    assert await rig.call("terminal.close", **one) == {"terminal_id": opened["terminal_id"]}
    assert (await rig.call("terminal.list", session_id=session)) == {"terminals": []}
    assert not [line for line in rig.gateway.census(session) if line.startswith("terminal ")]
    with pytest.raises(NotFound):
        await rig.call("terminal.close", **one)


async def test_guards(rig):
    session = await rig.session()
    await rig.refuses_strangers("terminal.close", terminal_id="t1")
    await rig.refuses_wrong_types("terminal.close", session_id=session, terminal_id="t1")
