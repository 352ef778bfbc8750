"""Case 6: closing one session does not close what others share."""

from __future__ import annotations

import asyncio

import pytest

from support.profiles import RealProfiles, closed, turn
from tenure.errors import StoreError
from tenure.models.script import Script
from tenure.sessions.profiles import IDLE_S
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import _in_memory, open_test_gateway
from tenure.testing.waiting import until


async def test_the_store_stays_open_for_the_other_session(tmp_path):
    async with open_test_gateway(tmp_path, Script([{"text": "ok"}], loop=True)) as gw:
        client, _ = await gw.client()
        a, b = await client.ready_session(), await client.ready_session()
        await client.call("session.close", session_id=a)
        await client.call("session.resume", session_id=a)
        await client.until("session.info", a)
        await client.call("session.close", session_id=a)
        await client.call("prompt.submit", session_id=b, text="still there?")
        done = await client.until("message.complete", b)
        assert done.payload["state"] == "completed"
        assert [t.state for t in await gw.store.turns(b)] == ["completed"]


async def test_a_borrowed_provider_closes_with_its_last_borrower(tmp_path):
    from tenure.clock import SystemClock
    from tenure.lifecycle.scope import Scope
    from tenure.lifecycle.shared import Shared

    closed = []
    root = Scope.root("r", SystemClock())

    async def build(key):
        return key

    shared = Shared(root, "provider", build=build, release=closed.append)
    one, two = root.child("one"), root.child("two")
    await shared.borrow("p", one)
    await shared.borrow("p", two)
    await one.close()
    assert closed == []
    await two.close()
    await settle()
    assert closed == ["p"]
    await root.close()


async def again(client, session, how):
    """Attach to a session, or copy it, in one of the ways there are; what else is open then."""
    if how == "live":
        await client.call("session.resume", session_id=session)
    elif how == "activate":
        await client.call("session.activate", session_id=session)
    elif how == "by title":
        await client.call("session.resume", session_id="Session A", profile="work")
    elif how == "branch":
        await turn(client, session)
        return [(await client.call("session.branch", session_id=session))["session_id"]]
    else:
        await closed(client, session)
        more = {} if how == "stored" else {"lazy": how == "lazy", "eager_build": how == "eager"}
        await client.call("session.resume", session_id=session, profile="work", **more)
    return []


PATHS = ["live", "activate", "by title", "stored", "lazy", "eager", "branch"]


@pytest.mark.parametrize("how", PATHS)
async def test_a_profile_stays_open_for_its_other_session(tmp_path, how):
    async with open_test_gateway(tmp_path, Script([{"text": "ok"}], loop=True)) as gw:
        profiles = RealProfiles(gw)
        client, _ = await gw.client()
        await client.call("profile.create", name="work")
        a = await client.ready_session(profile="work", title="Session A")
        b = await client.ready_session(profile="work")
        for more in await again(client, a, how):
            assert gw.sessions.get(more).ports is gw.sessions.get(b).ports
            await closed(client, more)
        assert (await turn(client, a))["state"] == "completed"
        await closed(client, a)
        gw.ports.clock.advance(10 * IDLE_S)
        assert (await turn(client, b, "still there?"))["state"] == "completed"
        assert profiles.open == ["work"] and profiles.opened == {"work": 1}
        store = gw.sessions.get(b).ports.store
        assert [t.state for t in await store.turns(b)] == ["completed"]
        await closed(client, b)
        await until(profiles.unused, "it is given back")
        assert profiles.open == ["work"]  # kept for a while
        gw.ports.clock.advance(IDLE_S)
        await until(lambda: not profiles.open, "the profile is closed")
        with pytest.raises(StoreError, match="closed"):
            await store.session(b)


async def test_concurrent_users_open_a_profile_once(tmp_path):
    async with open_test_gateway(tmp_path, Script([{"text": "ok"}], loop=True)) as gw:
        profiles = RealProfiles(gw)
        client, _ = await gw.client()
        await client.call("profile.create", name="work")
        calls = [client.call("session.create", profile="work") for _ in range(5)]
        calls += [client.call("session.list", profile="work") for _ in range(5)]
        await asyncio.gather(*calls)
        assert profiles.opened == {"work": 1}


@pytest.mark.parametrize("call", [
    ("session.list", {}), ("session.history", {"session_id": "20200101_000000_00000000"}),
    ("session.resume", {"session_id": "20200101_000000_00000000"}),
    ("session.resume", {"session_id": "no such title"}),
    ("session.delete", {"session_id": "20200101_000000_00000000"}),
], ids=lambda call: f"{call[0]} {call[1].get('session_id', '')}")  # fmt: skip
@pytest.mark.parametrize("end", ["answered", "client leaves"])
async def test_who_only_reads_gives_back_on_every_way_out(tmp_path, call, end):
    async with open_test_gateway(tmp_path, Script([{"text": "ok"}])) as gw:
        client, scope = await gw.client()
        await client.call("profile.create", name="work")
        gate, held = Gate(), []

        async def open_profile(name, scope, base):
            if end == "client leaves":
                await gate.park()
            ports = await _in_memory(name, scope, base)
            held.append(name)
            scope.own("count", name, held.remove)
            return ports

        gw.open_profile = open_profile
        asked = asyncio.ensure_future(client.call(call[0], profile="work", **call[1]))
        if end == "client leaves":
            await gate.wait_parked()
            await scope.close("gone")
            await settle()
            gate.release()
        await asyncio.gather(asked, return_exceptions=True)
        await settle()
        gw.ports.clock.advance(IDLE_S)
        await settle()
        assert held == [] and not [line for line in gw.census("profile") if "profile" in line]


async def test_the_last_write_comes_before_the_end_of_the_database(tmp_path):
    """Even where nothing keeps the profile open after its last session."""
    async with open_test_gateway(tmp_path, Script([{"text": "ok"}], loop=True)) as gw:
        profiles = RealProfiles(gw)
        gw.ports.profiles.open._idle_s = 0.0
        client, _ = await gw.client()
        await client.call("profile.create", name="work")
        for _ in range(3):
            session = await client.ready_session(profile="work")
            await turn(client, session)
            gate = Gate()
            gw.sessions.get(session).scope.own("slow", gate, Gate.park)
            closing = asyncio.ensure_future(client.call("session.close", session_id=session))
            await gate.wait_parked()
            await settle()
            assert profiles.open == ["work"]
            gate.release()
            await closing
            await client.until("session.closed", session)
            await until(lambda: not profiles.open, "closed")
            rows = (await client.call("session.list", profile="work"))["sessions"]
            assert {row["status"] for row in rows} == {"closed"}
            assert {row["reason"] for row in rows} == {"closed by a client"}
