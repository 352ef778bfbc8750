"""profile.delete: remove a profile that nobody uses."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tenure.errors import BadValue, Conflict, NotFound, TenureError
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import _in_memory


async def test_it_and_all_in_it_is_gone_when_its_sessions_are_closed(rig, tmp_path):
    await rig.call("profile.create", name="office")
    (tmp_path / "home/profiles/office/grants.json").write_text("[]")
    session = await rig.session(profile="office")
    with pytest.raises(Conflict, match="1 session is live in the profile 'office'"):
        await rig.call("profile.delete", name="office")
    await rig.call("session.close", session_id=session)
    await rig.client.until("session.closed")
    found = await rig.call("profile.delete", name="office")
    assert [row["name"] for row in found["profiles"]] == ["default"]
    assert list((tmp_path / "home/profiles").iterdir()) == []
    with pytest.raises(NotFound):
        await rig.call("session.create", profile="office")


async def test_a_session_that_is_being_opened_counts_as_live(rig):
    await rig.call("profile.create", name="office")
    gate = Gate()

    async def slowly(name, scope, base):
        await gate.park()
        return await _in_memory(name, scope, base)

    rig.gateway.open_profile = slowly
    opening = asyncio.ensure_future(rig.call("session.create", profile="office"))
    await gate.wait_parked()
    with pytest.raises(Conflict, match="1 session is live"):
        await rig.call("profile.delete", name="office")
    gate.release()
    assert (await opening)["info"]["profile_name"] == "office"


async def test_the_default_one_and_the_one_in_use_stay(rig):
    with pytest.raises(BadValue, match="the home itself"):
        await rig.call("profile.delete", name="default")
    await rig.call("profile.create", name="office")
    rig.gateway.ports.profiles.fallback = "office"
    with pytest.raises(Conflict, match="requests that name none"):
        await rig.call("profile.delete", name="office")
    with pytest.raises(NotFound):
        await rig.call("profile.delete", name="nope")


async def test_whoever_reads_meanwhile_is_waited_for_and_nobody_opens_it_again(rig, tmp_path):
    await rig.call("profile.create", name="office")
    gate, held = Gate(), []

    async def slowly(name, scope, base):
        await gate.park()
        assert (tmp_path / "home/profiles" / name).is_dir()
        held.append(name)
        scope.own("count", name, held.remove)
        return await _in_memory(name, scope, base)

    rig.gateway.open_profile = slowly
    reading = asyncio.ensure_future(rig.call("session.list", profile="office"))
    await gate.wait_parked()
    deleting = asyncio.ensure_future(rig.call("profile.delete", name="office"))
    await settle()
    with pytest.raises(Conflict, match="is being deleted"):
        await rig.call("session.list", profile="office")
    with pytest.raises(Conflict, match="is being deleted"):
        await rig.call("profile.delete", name="office")
    gate.release()
    with suppress(TenureError):  # it may be told that the profile goes
        assert (await reading)["sessions"] == []
    await deleting
    assert held == [] and not len(rig.gateway.ports.profiles.open)
    assert list((tmp_path / "home/profiles").iterdir()) == []
    await rig.call("profile.create", name="office")  # the name is free again
    assert (await rig.call("session.list", profile="office"))["sessions"] == []


async def test_who_waits_for_the_end_of_an_opening_does_not_open_what_is_deleted(rig):
    profiles = rig.gateway.ports.profiles
    await rig.call("profile.create", name="office")
    await rig.call("session.list", profile="office")
    lease = profiles.open._slots["office"].lease
    gate = Gate()
    opened = lease.value
    opened.scope.own("slow", gate, Gate.park)
    deleting = asyncio.ensure_future(rig.call("profile.delete", name="office"))
    await gate.wait_parked()
    late = asyncio.ensure_future(profiles._borrow("office", rig.gateway.root.child("late")))
    await settle()
    gate.release()
    with pytest.raises((NotFound, Conflict)):
        await late
    await deleting
    assert "office" not in profiles.open


async def test_a_link_is_no_profile_so_what_it_leads_to_stays(rig, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "home/profiles").mkdir(parents=True)
    (tmp_path / "home/profiles/link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotFound):
        await rig.call("profile.delete", name="link")
    assert (tmp_path / "elsewhere").is_dir()


async def test_wrong_types(rig):
    await rig.refuses_wrong_types("profile.delete", name="x")
