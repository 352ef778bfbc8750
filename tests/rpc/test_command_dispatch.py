"""command.dispatch: a slash command by name."""

from __future__ import annotations

import pytest

from tenure.errors import BadValue


async def test_by_name(rig):
    session = await rig.session()
    found = await rig.call("command.dispatch", session_id=session, name="title", arg="A name")
    assert found == {"type": "exec", "output": "title: A name"}


async def test_guards(rig):
    with pytest.raises(BadValue, match="no command"):
        await rig.call("command.dispatch", name="nothing")
    await rig.refuses_strangers("command.dispatch", name="status")
    await rig.refuses_wrong_types("command.dispatch", name="help")
