"""Random clients, a random store, a random model; whatever happens, what is owned is given back.

Every seed is one run. A failing run prints its seed and what it did; put the seed into `FIXED`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from dataclasses import replace
from typing import Any

import pytest

from simulation.devices import Device
from simulation.oracles import check_at_rest, check_devices, check_heard, check_rows
from simulation.world import FaultyStore, World, random_step, threads
from tenure.config import ApprovalsConfig, Config, LimitsConfig
from tenure.lifecycle.scope import Scope
from tenure.models.script import Script
from tenure.sessions.resources import SessionPorts
from tenure.testing.clock import ManualClock, settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.tools import scripted_tool
from tenure.tools.base import Effect

FIXED = (1, 2, 3, 5, 8, 13, 21, 34)
FRESH = 4
STEPS = 150
PATIENCE_S = 20
OTHER = "work"


def config_of(rnd: random.Random) -> Config:
    """Small limits, so that each of them is met."""
    return Config(
        limits=LimitsConfig(
            queue_max=3,
            steps_max=4,
            sessions_max=6,
            loaded_max=rnd.choice([3, 6]),
            history_mib=rnd.choice([0, 1]),
            orphan_grace_s=20.0,
            idle_s=30.0,
        ),
        approvals=ApprovalsConfig(timeout_s=60.0),
    )


async def run(tmp_path: Any, seed: int) -> None:
    rnd = random.Random(seed)
    clock, deaf = ManualClock(), Gate()
    stores = {"default": FaultyStore(), OTHER: FaultyStore()}
    script = Script([random_step(rnd) for _ in range(12)], loop=True)
    tools = (
        scripted_tool("probe"),
        scripted_tool("act", effect=Effect.WRITE),
        scripted_tool("deaf", gate=deaf, deaf=True),
    )
    config, rings = config_of(rnd), rnd.choice([1_000, 5_000, 1 << 25])
    (tmp_path / "home" / "profiles" / OTHER).mkdir(parents=True)

    async def other(name: str, scope: Scope, base: SessionPorts) -> SessionPorts:
        del scope
        await asyncio.sleep(0)
        return replace(base, store=stores[name], profile=name)

    async with open_test_gateway(
        tmp_path, script, clock=clock, store=stores["default"], config=config,
        tools=lambda _c, _s: tools,
    ) as gw:  # fmt: skip
        gw.open_profile = other
        gw.sessions.ports.memory.rings._bytes_max = rings
        world = World(gw, rnd, clock, stores, deaf, faults=rnd.random() < 0.5)
        world.devices = [
            Device(gw, random.Random(rnd.random()), f"d{n}", world.log) for n in (1, 2)
        ]
        for device in world.devices:
            device.reordered = world.reordered
        logging.getLogger("tenure").addHandler(world.fenced)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await live(world)
        except BaseException:
            print(f"seed {seed}:", *world.log, sep="\n  ")
            raise
        finally:
            logging.getLogger("tenure").removeHandler(world.fenced)
            await mend(world)
    await stores[OTHER].aclose()


async def live(world: World) -> None:
    """The whole run, from the first client to the last row."""
    await world.connect()
    for _ in range(STEPS):
        await world.act()
        running = [s for s in world.gw.sessions.live() if s.current is not None]
        assert all(s.state.value == "working" for s in running)
    await world.calm()
    await check_at_rest(world)
    await check_devices(world)
    await check_rows(world)
    check_heard(world)
    await end(world)


async def end(world: World) -> None:
    """A drain in the middle of new work: nothing is left, every row has its end."""
    gw = world.gw
    for _ in range(20):
        await world.submit()
    await settle(world.rnd.randrange(20))
    drained = asyncio.create_task(gw.sessions.drain("the end", 12.0))
    for _ in range(20):
        await settle(20)
        await threads(gw)
        world.clock.advance(0.5)
        for n in range(3):
            gw.picker.script.gate(f"g{n}").open()
    await drained
    await leave(world)
    await settle(60)
    assert gw.sessions.live() == [] and gw.picker.opened == []
    held = [e for e in gw.root.census() if e.kind not in {"store", "profile"}]
    assert [e for e in held if e.label != "reaper"] == []
    memory = gw.sessions.ports.memory
    assert (memory.histories.held_bytes, memory.rings.held_bytes) == (0, 0)
    assert not gw.sessions.reaper._unattached and not gw.sessions.profiles._held
    for store in world.stores.values():
        if not store.failed:
            assert {r["status"] for r in store._rows.sessions.values()} <= {"closed", "idle"}


async def leave(world: World) -> None:
    for device in world.devices:
        await device.vanish()
    for _, scope in world.clients:
        await scope.close()


async def mend(world: World) -> None:
    """So that the gateway can end, however the run went."""
    await world.mend_build()
    await world.unblock()
    world.deaf.release()
    await leave(world)
    if world.calls:
        await asyncio.wait(world.calls, timeout=30)
    for call in world.calls:
        if call.done() and not call.cancelled() and (error := call.exception()) is not None:
            raise error
        call.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("seed", FIXED)
async def test_known_seeds(tmp_path, seed):
    await run(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(FRESH))
async def test_fresh_seeds(tmp_path, number):
    await run(tmp_path, int.from_bytes(os.urandom(4), "big"))
