"""Case 4: replacing an agent (/model, /new) or unloading its session frees all of it."""

from __future__ import annotations

import gc
import os
import threading

import pytest

from support.idle import GRACE_S, IDLE_S, pass_time
from support.restarts import Restarts
from tenure.config import Config, LimitsConfig
from tenure.models.script import Script
from tenure.sessions.actor import Session
from tenure.sessions.journal import Journal
from tenure.sessions.resources import Agent
from tenure.store.base import ItemRow
from tenure.testing.clock import settle
from tenure.testing.gateway import StepPicker, open_test_gateway
from tenure.testing.waiting import until


def objects():
    """How many agents and scopes are reachable, in the census or not."""
    gc.collect()
    kinds = [type(found).__name__ for found in gc.get_objects()]
    return {kind: kinds.count(kind) for kind in ("Agent", "Scope")}


async def test_a_hundred_model_switches_hold_one_agent(tmp_path):
    async with open_test_gateway(tmp_path, Script([])) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        baseline = sorted(gw.census())
        session = gw.sessions.get(sid)
        held = objects()
        for n in range(100):
            await client.call("slash.exec", session_id=sid, command=f"/model scripted:m{n}")
            while session.agent is None or session.agent.model.ref != f"scripted:m{n}":
                await client.until("session.info", sid)
            assert gw.picker.opened == list(StepPicker.STEPS)
        await settle()
        assert sorted(gw.census()) == baseline
        assert gw.picker.picks == 101
        assert objects() == held == {"Agent": 1, "Scope": held["Scope"]}


async def test_a_hundred_new_sessions_leave_nothing_when_closed(tmp_path):
    async with open_test_gateway(tmp_path, Script([{"text": "x"}], loop=True)) as gw:
        client, _ = await gw.client()
        baseline = None
        for n in range(100):
            sid = await client.ready_session()
            await client.call("prompt.submit", session_id=sid, text="hello")
            await client.until("message.complete", sid)
            await client.call("session.close", session_id=sid)
            await client.until("session.closed", sid)
            await settle()
            held = sorted(gw.census())
            baseline = held if n == 0 else baseline
            assert held == baseline
            assert gw.picker.opened == []


def calls_in_threads():
    """Those whose thread has not ended; one ends shortly after its result was delivered."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("tenure ") and name != "tenure launcher"]


def held_now(gw):
    """Threads, descriptors and what is held; how many sessions and histories are reachable."""
    gc.collect()
    kinds = [type(found) for found in gc.get_objects()]
    return {
        "threads": threading.active_count(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "clients": list(gw.picker.opened),
        "census": len(gw.census()),
        **{kind.__name__: kinds.count(kind) for kind in (Session, Journal, Agent, ItemRow)},
    }


async def at_rest(gw, sessions, before):
    """What is held when the threads have let go of what they have done."""
    await until(lambda: not calls_in_threads(), "their results are there")
    await settle()
    why = "no transcript of an unloaded session is reachable"
    await until(lambda: held_now(gw)["ItemRow"] == before + 2 * sessions, why)
    return held_now(gw)


async def said_and_left(client):
    """A session with one turn that nobody is attached to."""
    session = await client.ready_session()
    await client.call("prompt.submit", session_id=session, text="a long story")
    await client.until("message.complete", session)
    await client.call("session.detach", session_id=session)
    return session


@pytest.mark.parametrize("how", ["room", "idle"])
async def test_a_hundred_unloaded_sessions_leave_nothing(tmp_path, how):
    limits = LimitsConfig(
        orphan_grace_s=GRACE_S, idle_s=IDLE_S, loaded_max=4 if how == "room" else 1_000
    )
    restarts = Restarts(tmp_path)
    script = Script([{"text": "and its end"}], loop=True)
    async with restarts.boot(script, config=Config(limits=limits)) as gw:
        gw.clock = restarts.clock
        client, _ = await gw.client()
        ids, held = [], []
        before = held_now(gw)["ItemRow"]  # what other files of tests hold
        for n in range(100):
            ids.append(await said_and_left(client))
            if how == "idle":
                await pass_time(gw, GRACE_S + IDLE_S)
            expected = min(len(ids), 4) if how == "room" else 0
            await until(lambda: len(gw.sessions) == expected)  # noqa: B023 - awaited at once
            if n % 20 == 19:
                script.requests.clear()  # what the test itself keeps
                client.seen.clear()
                await gw.store.write()  # behind all that was accepted before
                held.append(await at_rest(gw, expected, before))
        assert held == [held[0]] * 5, held
        assert held[0]["Session"] == held[0]["Journal"] == expected
        back = await client.call("session.resume", session_id=ids[0])
        assert [m["text"] for m in back["messages"]] == ["a long story", "and its end"]
