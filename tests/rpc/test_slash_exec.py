"""slash.exec: a slash command's text."""

from __future__ import annotations

import pytest

from tenure.errors import BadValue


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("/help", "/model"),
        ("status", "idle"),
        ("/usage", "tokens in"),
        ("/title A name", "title: A name"),
        ("/tools", "shell"),
        ("/stop", "nothing is running"),
        ("/model", "scripted:test (a test)"),
        ("/model scripted:b", "model: scripted:b"),
        ("/new", "session.create"),
        ("/quit", "Ctrl-D"),
    ],
)
async def test_each(rig, command, shown):
    session = await rig.session()
    assert shown in (await rig.call("slash.exec", session_id=session, command=command))["output"]


async def test_what_there_is_not(rig):
    session = await rig.session()
    with pytest.raises(BadValue, match="did you mean /model"):
        await rig.call("slash.exec", session_id=session, command="/modle")
    with pytest.raises(BadValue, match="/help lists all"):
        await rig.call("slash.exec", session_id=session, command="/xyzzy")
    await rig.refuses_strangers("slash.exec", command="/status")
    await rig.refuses_wrong_types("slash.exec", command="/help")
