"""profile.create: make an empty profile."""

from __future__ import annotations

import pytest

from tenure.errors import BadValue, Conflict, NotFound

BAD = ["", "../x", "a/b", "/etc", "A", ".", "..", "x" * 65, "nul", "a\0b", "ümlaut"]


async def test_a_private_folder_that_sessions_may_name(rig, tmp_path):
    found = await rig.call("profile.create", name="work")
    assert [row["name"] for row in found["profiles"]] == ["default", "work"]
    folder = tmp_path / "home" / "profiles" / "work"
    assert folder.stat().st_mode & 0o777 == 0o700 and not any(folder.iterdir())
    session = await rig.session(profile="work")
    assert rig.live(session).info()["profile_name"] == "work"


@pytest.mark.parametrize("name", BAD)
async def test_what_cannot_be_a_name_makes_nothing(rig, tmp_path, name):
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BadValue, match="cannot name a profile"):
        await rig.call("profile.create", name=name)
    if name:
        with pytest.raises(BadValue):
            await rig.call("session.create", profile=name)
    assert sorted(tmp_path.rglob("*")) == before


async def test_names_are_taken_once(rig):
    await rig.call("profile.create", name="work")
    for name in ("work", "default"):
        with pytest.raises(Conflict, match="already"):
            await rig.call("profile.create", name=name)


@pytest.mark.parametrize("method", ["session.create", "session.list", "session.resume"])
async def test_a_profile_must_be_made_before_it_is_used(rig, method):
    params = {"session_id": "x"} if method == "session.resume" else {}
    with pytest.raises(NotFound, match="tenure profile create nope"):
        await rig.call(method, profile="nope", **params)


async def test_wrong_types(rig):
    await rig.refuses_wrong_types("profile.create", name="x")
