"""Case 74: a container has a row before it is there; a failed step, a kill and a boot leave no difference."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3

import pytest

from support.boxes import Ground
from support.commands import Place
from support.served import serving
from tenure.errors import SandboxUnavailable
from tenure.lifecycle.scope import Scope
from tenure.sandbox.docker import HOME_LABEL, LEASE_LABEL, PROFILE_LABEL, Engine, compare
from tenure.sessions.containers import EVERY_S, ContainerRows, ContainerWatch
from tenure.store import base as b
from tenure.testing.clock import ManualClock
from tenure.testing.engine import write_engine
from tenure.testing.store import MemoryStore


@pytest.fixture
async def ground(tmp_path):
    ground = Ground(tmp_path)
    yield ground
    await ground.session.close()
    await ground.root.close()


async def agree(ground, double):
    """What the engine lists and the rows that say that something is there are the same."""
    listed = {found.lease for found in await ground.engine.listed()}
    assert listed == set(await ground.rows.live())
    return len(listed)


@pytest.mark.parametrize("step", ["run", "run after create"])
async def test_a_step_that_fails_leaves_no_difference(ground, tmp_path, step):
    double = write_engine(tmp_path / "engine")
    box = ground.docker(double)
    double.rule("fail", step)
    with pytest.raises(SandboxUnavailable):
        await ground.run(box, "true")
    assert await agree(ground, double) == 0
    double.lift("fail")
    await ground.run(box, "true")
    assert await agree(ground, double) == 1


@pytest.mark.parametrize("step", ["nothing", "row", "created", "made"])
async def test_a_kill_at_each_step_is_healed_by_the_next_start(ground, tmp_path, step):
    """What a killed gateway leaves behind at that step, then what the next one makes of it."""
    double = write_engine(tmp_path / "engine")
    ground.docker(double)  # the next gateway: it holds nothing
    labels = {HOME_LABEL: "home-1", PROFILE_LABEL: "default", LEASE_LABEL: "ctr_old"}
    if step != "nothing":
        await ground.rows.begin("ctr_old", "s1", 1)
    if step in {"created", "made"}:
        double.put("a" * 64, **labels)
    foreign = {**labels, HOME_LABEL: "home-2"}
    other = {**labels, PROFILE_LABEL: "other"}
    double.put("b" * 64, **foreign)
    double.put("c" * 64, **other)
    await compare(ground.engine, ground.rows, ground.rows.live)
    assert await agree(ground, double) == 0
    assert set(double.containers()) == {"b" * 64, "c" * 64}


def row_of(place, sql):
    with sqlite3.connect(f"file:{place.home}/tenure.db?mode=ro", uri=True) as db:
        return db.execute(sql).fetchall()


async def test_kill_9_of_the_gateway_and_its_guard(tmp_path):
    place = Place(tmp_path)
    place.home.mkdir(exist_ok=True)
    double = write_engine(tmp_path / "engine")
    kind = f'[sandbox]\nkind = "docker"\n[sandbox.docker]\nprogram = "{double.path}"\n'
    place.config(kind)
    call = {"call": {"name": "shell", "arguments": {"command": "echo inside > made"}}}
    ref = place.script([call], {"text": "Done."})
    with serving(place, "--model", ref) as served:
        async with served.client() as client:
            session = await client.ready_session(cwd=str(place.work))
            await client.call("prompt.submit", session_id=session, text="go")
            await client.until("message.complete")
        assert (place.work / "made").read_text() == "inside\n"
        ((container, _),) = double.containers().items()
        assert row_of(place, "SELECT ended_at FROM containers") == [(0.0,)]
        os.kill(served.guard_pid, signal.SIGSTOP)  # both at one instant
        os.kill(served.pid, signal.SIGKILL)
        os.kill(served.guard_pid, signal.SIGKILL)
    assert container in double.containers(), "it outlives whoever made it"
    with serving(place, "--model", ref) as served:
        async with served.client() as client:
            await client.call("session.list")
            async with asyncio.timeout(30):
                while double.containers():
                    await asyncio.sleep(0.02)
                while row_of(place, "SELECT 1 FROM containers WHERE ended_at = 0"):
                    await asyncio.sleep(0.02)
    (told,) = row_of(place, "SELECT reason FROM containers")
    assert "nobody holds it" in told[0]
    assert json.dumps(double.commands()).count('"run"') == 1


async def test_it_is_looked_for_again_and_again_while_there_are_any(ground, tmp_path):
    """Not at the start only: what is lost while the gateway lives is found as well (case 73)."""
    double = write_engine(tmp_path / "engine")
    clock, store = ManualClock(), MemoryStore()
    scope = Scope.root("watched", clock)
    try:
        rows = ContainerRows(store, clock, "me-1")
        ground.docker(double)
        engine = Engine(
            ground.spawner, ground.root.child("e2"), "home-1", "default", ground.engine.config
        )
        watch = ContainerWatch(scope, engine, rows)
        watch.begin()
        await asyncio.sleep(0)
        assert double.commands() == [], "without any, nothing is asked"
        await store.write(b.InsertContainer(b.ContainerRow("ctr_lost", "s1", "me-1", 1.0)))
        double.put("a" * 64, **{
            HOME_LABEL: "home-1", PROFILE_LABEL: "default", LEASE_LABEL: "ctr_lost",
        })  # fmt: skip
        engine.used.set()
        async with asyncio.timeout(30):
            while double.containers():
                clock.advance(EVERY_S)
                await asyncio.sleep(0.01)
            while await store.containers():
                await asyncio.sleep(0.01)
    finally:
        await scope.close()
        await store.aclose()
