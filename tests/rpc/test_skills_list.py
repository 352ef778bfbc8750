"""skills.list: the skills of a session, or of a directory."""

from __future__ import annotations

import pytest

from support.skills import with_shelf, write_skill
from tenure.errors import NotFound


async def test_those_that_count_and_those_that_wait(rig, tmp_path):
    assert await rig.call("skills.list") == {"skills": []}
    with_shelf(rig.gateway, tmp_path / "home")
    write_skill(tmp_path / "home" / "skills", "mine", "Makes mine.")
    write_skill(tmp_path / ".agents" / "skills", "theirs")
    session = await rig.session()
    for found in (
        await rig.call("skills.list", session_id=session),
        await rig.call("skills.list", cwd=str(tmp_path)),
    ):
        mine, theirs = found["skills"]
        assert (mine["name"], mine["description"], mine["problem"]) == ("mine", "Makes mine.", "")
        assert len(mine["digest"]) == 64 and mine["source"] == "profile"
        assert (theirs["source"], theirs["digest"]) == ("project", "")
        assert "waits for consent" in theirs["problem"]
    shown = await rig.call("slash.exec", session_id=session, command="skills")
    assert "mine" in shown["output"] and "not used: It waits for consent" in shown["output"]


async def test_where_they_are_switched_off_there_are_none(rig, tmp_path):
    with_shelf(rig.gateway, tmp_path / "home")
    write_skill(tmp_path / "home" / "skills", "mine", "Makes mine.")
    assert len((await rig.call("skills.list"))["skills"]) == 1
    (tmp_path / "home" / "config.toml").write_text("[skills]\nenabled = false\n")
    await rig.call("config.reload")
    assert await rig.call("skills.list") == {"skills": []}


async def test_guards(rig, tmp_path):
    with_shelf(rig.gateway, tmp_path / "home")
    with pytest.raises(NotFound, match="nowhere"):
        await rig.call("skills.list", cwd=str(tmp_path / "nowhere"))
    await rig.refuses_wrong_types("skills.list", session_id="x")
