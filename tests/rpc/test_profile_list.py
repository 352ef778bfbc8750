"""profile.list: the profiles of this gateway."""

from __future__ import annotations


async def test_the_default_one_first_and_what_is_live_is_counted(rig):
    await rig.call("profile.create", name="work")
    await rig.call("profile.create", name="a")
    await rig.session()
    await rig.session(profile="work")
    await rig.session(profile="work")
    assert (await rig.call("profile.list"))["profiles"] == [
        {"name": "default", "current": True, "live": 1},
        {"name": "a", "current": False, "live": 0},
        {"name": "work", "current": False, "live": 2},
    ]


async def test_what_lies_about_is_no_profile(rig, tmp_path):
    await rig.call("profile.create", name="work")
    profiles = tmp_path / "home" / "profiles"
    (profiles / "Not A Name").mkdir()
    (profiles / ".old.deleted").mkdir()
    (profiles / "file").touch()
    (profiles / "link").symlink_to(tmp_path, target_is_directory=True)
    found = (await rig.call("profile.list"))["profiles"]
    assert [row["name"] for row in found] == ["default", "work"]
