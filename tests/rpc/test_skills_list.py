"""skills.list: the skills of a session, or of a directory."""

from __future__ import annotations

from support.skills import with_shelf, write_skill


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


async def test_guards(rig):
    await rig.refuses_wrong_types("skills.list", session_id="x")
