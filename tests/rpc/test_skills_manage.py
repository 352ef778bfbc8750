"""skills.manage: as the terminal client asks for skills."""

from __future__ import annotations

import pytest

from support.skills import with_shelf, write_skill
from tenure.errors import InvalidParams, NotFound


async def test_names_by_source_and_one_of_them(rig, tmp_path):
    with_shelf(rig.gateway, tmp_path / "home")
    write_skill(tmp_path / "home" / "skills", "mine", a__md="x")
    write_skill(tmp_path / ".agents" / "skills", "theirs")
    assert await rig.call("skills.manage") == {"skills": {"profile": ["mine"]}}
    found = await rig.call("skills.manage", action="inspect", query="mine")
    assert found["info"]["files"] == ["SKILL.md", "a.md"]
    with pytest.raises(NotFound, match="There is no skill 'theirs'"):
        await rig.call("skills.manage", action="inspect", query="theirs")
    with pytest.raises(InvalidParams, match="action"):
        await rig.call("skills.manage", action="install", query="x")


async def test_guards(rig):
    await rig.refuses_wrong_types("skills.manage", session_id="x")
