"""Case 82: database handles are bounded; running out of descriptors is told as itself."""

from __future__ import annotations

import asyncio
import os
import resource

import pytest

from support.profiles import RealProfiles, descriptors
from tenure.errors import Overloaded
from tenure.models.script import Script
from tenure.sessions.profiles import IDLE_S, OPEN_MAX
from tenure.store.sqlite import READERS_MAX, open_sqlite, prepare
from tenure.testing.gateway import open_test_gateway
from tenure.testing.waiting import until


def handles(path):
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{fd}") == str(path)
        except FileNotFoundError:
            continue
    return found


async def test_turns_and_reads_use_a_bounded_number_of_handles(tmp_path):
    path = tmp_path / "t.db"
    store = open_sqlite(path, prepare(path, tmp_path / "b"))
    async with open_test_gateway(tmp_path, Script([{"text": "x"}], loop=True), store=store) as gw:
        client, _ = await gw.client()
        for n in range(1_000):
            if n % 25 == 0:
                sid = await client.ready_session()
            await client.call("prompt.submit", session_id=sid, text="hi")
            await client.until("message.complete")
            await client.call("session.history", session_id=sid)
            await client.call("session.list")
            with pytest.raises(Exception, match="No session"):
                await client.call("session.resume", session_id="20200101_000000_00000000")
        assert 1 <= handles(path) <= 1 + READERS_MAX
    assert handles(path) == 0


async def test_exhausted_descriptors_stop_admission_and_lose_nothing(tmp_path):
    path = tmp_path / "t.db"
    store = open_sqlite(path, prepare(path, tmp_path / "b"))
    async with open_test_gateway(tmp_path, Script([{"text": "x"}], loop=True), store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("session.list")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(int(fd) for fd in os.listdir("/proc/self/fd"))
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
            free = []
            while True:
                try:
                    free.append(os.dup(2))
                except OSError:
                    break
            for fd in free[:5]:
                os.close(fd)
            free = free[5:]
            with pytest.raises(Overloaded, match="descriptors are exhausted"):
                await client.call("session.create")
            await client.call("prompt.submit", session_id=sid, text="still works")
            done = await client.until("message.complete")
            assert done.payload["state"] == "completed"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for fd in free:
                os.close(fd)
        assert [t.state for t in await store.turns(sid)] == ["completed"]
        assert await client.ready_session()


CYCLES = 1000
AT_ONCE = 50
NAMES = ("p", "q", "r", "s")


async def test_a_thousand_cycles_in_profiles_leave_no_handle(tmp_path):
    """Create and close, then resume and close; profiles are opened and closed again meanwhile."""
    async with open_test_gateway(tmp_path, Script([{"text": "x"}], loop=True)) as gw:
        profiles, clock = RealProfiles(gw), gw.ports.clock
        client, _ = await gw.client()
        for name in NAMES:
            await client.call("profile.create", name=name)
        before = descriptors()

        async def cycle(n):
            name = NAMES[n % len(NAMES)]
            made = await client.call("session.create", profile=name, close_on_disconnect=True)
            await client.call("session.close", session_id=made["session_id"])
            await client.call("session.resume", session_id=made["session_id"], profile=name)
            await client.call("session.close", session_id=made["session_id"])

        for start in range(0, CYCLES, AT_ONCE):
            await asyncio.gather(*(cycle(n) for n in range(start, start + AT_ONCE)))
            await until(lambda: not len(gw.sessions), "all are closed")
            if start % 100 == 0:
                assert sorted(profiles.open) == sorted(NAMES)
                await until(lambda: len(profiles.unused()) == len(NAMES), "all are given back")
                clock.advance(IDLE_S)
                await until(lambda: not profiles.open, "nobody uses a profile")
                await until(lambda: descriptors() == before, "no handle is left")
        await until(lambda: len(profiles.unused()) == len(NAMES), "all are given back")
        clock.advance(IDLE_S)
        await until(lambda: not profiles.open, "nobody uses a profile")
        await until(lambda: descriptors() == before, "no handle is left")
        assert profiles.opened == dict.fromkeys(NAMES, CYCLES // 100 + 1)
        rows = (await client.call("session.list", profile="p", limit=CYCLES))["sessions"]
        assert len(rows) == CYCLES // len(NAMES) and {r["status"] for r in rows} == {"closed"}


async def test_the_number_of_open_profiles_is_bounded(tmp_path):
    async with open_test_gateway(tmp_path, Script([{"text": "x"}])) as gw:
        client, _ = await gw.client()
        for n in range(OPEN_MAX + 1):
            await client.call("profile.create", name=f"p{n}")
        ids = [await client.ready_session(profile=f"p{n}") for n in range(OPEN_MAX)]
        with pytest.raises(Overloaded, match="profiles are open"):
            await client.call("session.list", profile=f"p{OPEN_MAX}")
        await client.call("session.list", profile="p0")  # one that is open
        await client.call("session.close", session_id=ids[3])
        await client.until("session.closed", ids[3])
        assert (await client.call("session.list", profile=f"p{OPEN_MAX}"))["sessions"] == []
        assert len(gw.ports.profiles.open) == OPEN_MAX
