"""tools.list: the session's tools."""

from __future__ import annotations


async def test_what_the_agent_may_call(rig):
    session = await rig.session()
    (toolset,) = (await rig.call("tools.list", session_id=session))["toolsets"]
    assert {"shell", "read", "background"} <= {t["name"] for t in toolset["tools"]}
    await rig.refuses_strangers("tools.list")
    await rig.refuses_wrong_types("tools.list")
