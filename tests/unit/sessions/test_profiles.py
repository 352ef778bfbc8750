"""Profiles of one gateway: how many are open, and how one comes and goes."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from tenure.errors import BadValue, Conflict, Overloaded, StoreError
from tenure.models.script import Script
from tenure.sessions import profiles as module
from tenure.testing.clock import settle
from tenure.testing.gates import ThreadGate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.waiting import until


@pytest.fixture
async def profiles(tmp_path):
    async with open_test_gateway(tmp_path, Script([])) as gateway:
        yield gateway.ports.profiles


async def test_a_home_has_the_default_one_before_any_other_is_made(profiles):
    assert not profiles.home.profiles.exists()
    assert profiles.names() == ["default"] and profiles.name_of("") == "default"


async def test_what_is_no_name_is_no_path_either(profiles, tmp_path):
    profiles.create("work")
    for name in ("../profiles/work", "work/", ".", "work\n"):
        with pytest.raises(BadValue):
            profiles.name_of(name)


async def test_an_idle_one_stays_open_while_there_is_room(profiles):
    for name in "ab":
        profiles.create(name)
        async with profiles.using(name):
            pass
    assert ("a" in profiles.open, "b" in profiles.open) == (True, True)


async def test_so_many_are_open_and_an_idle_one_makes_room(profiles, root, monkeypatch):
    monkeypatch.setattr(module, "OPEN_MAX", 2)
    for name in "abcd":
        profiles.create(name)
    async with profiles.using("a"), profiles.using("b"):
        with pytest.raises(Overloaded, match="2 profiles are open"):
            async with profiles.using("c"):
                pass
        async with profiles.using("a"):  # which is open
            pass
    async with profiles.using("c"), profiles.using("d"):
        assert len(profiles.open) == 2


async def test_one_that_cannot_be_opened_leaves_nothing(profiles, root, tmp_path):
    held: list[str] = []

    async def half(name, scope):
        held.append(name)
        scope.own("count", name, held.remove)
        raise StoreError("The disk is gone.")

    profiles.create("work")
    opens, profiles._open_profile = profiles._open_profile, half
    with pytest.raises(StoreError, match="gone"):
        await profiles.hold("work", "s1", root)
    assert held == [] and profiles.live("work") == 0
    profiles._open_profile = opens
    async with profiles.using("work"):
        pass
    await profiles.delete("work")


async def test_a_session_that_is_over_gives_it_back_whole(profiles, root):
    profiles.create("work")
    for n in range(3):
        await profiles.hold("work", f"s{n}", root)
    assert profiles.live("work") == 3 == len(root.census())
    deleting = asyncio.ensure_future(profiles.delete("work"))
    await settle()
    assert deleting.done()
    with pytest.raises(Conflict, match="3 sessions are live"):
        await deleting
    for n in (0, 1, 2, 2):
        profiles.let_go("work", f"s{n}")
    assert profiles._held == {} and root.census() == []
    await profiles.delete("work")


async def test_a_deletion_goes_on_without_whoever_asked_for_it(profiles, monkeypatch):
    profiles.create("work")
    gate, remove = ThreadGate(), module._remove

    def slowly(folder, gone):
        gate.park()
        remove(folder, gone)

    monkeypatch.setattr(module, "_remove", slowly)
    asked = asyncio.ensure_future(profiles.delete("work"))
    await gate.wait_parked()
    asked.cancel()
    await asyncio.wait({asked})
    with pytest.raises(Conflict, match="is being deleted"):
        profiles.name_of("work")
    gate.release()
    await until(lambda: not profiles._deleting)
    assert profiles.names() == ["default"]
    profiles.create("work")


async def test_a_deletion_that_was_cut_off_left_no_half_of_one(profiles, monkeypatch):
    folder = profiles.create("work")
    (folder / "grants.json").write_text("[]")
    rmtree = shutil.rmtree

    def cut(path, *, ignore_errors=False):
        if not ignore_errors:
            raise OSError("the power went")
        rmtree(path, ignore_errors=True)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", cut)
        with pytest.raises(OSError, match="the power went"):
            await profiles.delete("work")
    await settle()
    assert profiles.names() == ["default"]
    (profiles.create("work") / "new").touch()
    await profiles.delete("work")
    assert not list(profiles.home.profiles.iterdir()), "nor what the first has left"
