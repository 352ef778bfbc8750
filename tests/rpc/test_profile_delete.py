"""profile.delete: remove a profile that nobody uses."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import BadValue, Conflict, NotFound
from tenure.testing.gates import Gate
from tenure.testing.gateway import _in_memory


async def test_it_and_all_in_it_is_gone_when_its_sessions_are_closed(rig, tmp_path):
    await rig.call("profile.create", name="work")
    (tmp_path / "home/profiles/work/grants.json").write_text("[]")
    session = await rig.session(profile="work")
    with pytest.raises(Conflict, match="1 session is live in the profile 'work'"):
        await rig.call("profile.delete", name="work")
    await rig.call("session.close", session_id=session)
    await rig.client.until("session.closed")
    found = await rig.call("profile.delete", name="work")
    assert [row["name"] for row in found["profiles"]] == ["default"]
    assert list((tmp_path / "home/profiles").iterdir()) == []
    with pytest.raises(NotFound):
        await rig.call("session.create", profile="work")


async def test_a_session_that_is_being_opened_counts_as_live(rig):
    await rig.call("profile.create", name="work")
    gate = Gate()

    async def slowly(name, scope, base):
        await gate.park()
        return await _in_memory(name, scope, base)

    rig.gateway.open_profile = slowly
    opening = asyncio.ensure_future(rig.call("session.create", profile="work"))
    await gate.wait_parked()
    with pytest.raises(Conflict, match="1 session is live"):
        await rig.call("profile.delete", name="work")
    gate.release()
    assert (await opening)["info"]["profile_name"] == "work"


async def test_the_default_one_and_the_one_in_use_stay(rig):
    with pytest.raises(BadValue, match="the home itself"):
        await rig.call("profile.delete", name="default")
    await rig.call("profile.create", name="work")
    rig.gateway.ports.profiles.fallback = "work"
    with pytest.raises(Conflict, match="requests that name none"):
        await rig.call("profile.delete", name="work")
    with pytest.raises(NotFound):
        await rig.call("profile.delete", name="nope")


async def test_a_link_is_no_profile_so_what_it_leads_to_stays(rig, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "home/profiles").mkdir(parents=True)
    (tmp_path / "home/profiles/link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotFound):
        await rig.call("profile.delete", name="link")
    assert (tmp_path / "elsewhere").is_dir()


async def test_wrong_types(rig):
    await rig.refuses_wrong_types("profile.delete", name="x")
