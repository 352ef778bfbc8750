"""terminal.resize: tell the width."""

from __future__ import annotations


async def test_told(rig):
    assert await rig.call("terminal.resize", cols=132) == {"cols": 132}
    await rig.refuses_wrong_types("terminal.resize")
