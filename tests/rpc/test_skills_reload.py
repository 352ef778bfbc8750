"""skills.reload: an open session has what was added since."""

from __future__ import annotations

import pytest

from support.skills import with_shelf, write_skill
from tenure.errors import BadValue, SessionBusy


async def rebuilt(rig, session):
    while True:
        info = (await rig.client.until("session.info", session)).payload
        if not info["lazy"]:
            return info


async def test_the_agent_of_the_session_has_them(rig, tmp_path):
    with_shelf(rig.gateway, tmp_path / "home")
    session = await rig.session()
    write_skill(tmp_path / "home" / "skills", "mine")
    write_skill(tmp_path / ".agents" / "skills", "theirs")
    assert rig.live(session).info()["skills"] == {}
    done = await rig.call("skills.reload", session_id=session)
    assert done["result"] == ["mine"]
    assert done["output"].startswith("1 skill: The skill theirs is not used: It waits for consent")
    assert (await rebuilt(rig, session))["skills"] == {"profile": ["mine"]}
    assert "skill" in [tool.name for tool in rig.live(session).agent.tools]
    write_skill(tmp_path / "home" / "skills", "other")
    shown = await rig.call("slash.exec", session_id=session, command="skills reload")
    assert shown["output"].startswith("2 skills: ")
    assert (await rebuilt(rig, session))["skills"] == {"profile": ["mine", "other"]}
    assert (await rig.call("skills.reload", cwd=str(tmp_path)))["result"] == ["mine", "other"]


@pytest.mark.parametrize("steps", [[[{"gate": "g"}]]])
async def test_not_while_a_turn_runs(rig, steps):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="one")
    with pytest.raises(SessionBusy, match="The agent cannot change now"):
        await rig.call("skills.reload", session_id=session)
    with pytest.raises(BadValue, match="use reload"):
        await rig.call("slash.exec", session_id=session, command="skills unload")


async def test_guards(rig):
    await rig.refuses_wrong_types("skills.reload", session_id="x")
