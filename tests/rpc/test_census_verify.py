"""census.verify: what is held against what runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess

import pytest

from tenure.processes.containment import LABEL
from tenure.processes.watchman import NOTICE_LOOKS, NOTICE_S
from tenure.testing.clock import settle


async def test_what_nobody_holds_is_told_and_ended(rig):
    await rig.session()
    clean = await rig.call("census.verify")
    assert (clean["differences"], clean["found"]) == ([], 0)
    mark = rig.live(await rig.session()).ports.spawner.mark
    env = {**os.environ, LABEL: f"test-0/gone/{mark}-12345"}
    lost = subprocess.Popen(["sleep", "600"], env=env, start_new_session=True)
    try:
        found = await rig.call("census.verify")
        (one,) = found["differences"]
        assert (one["kind"], one["pid"], one["healed"]) == ("stray", lost.pid, True)
        assert lost.wait(30) == -15
        again = await rig.call("census.verify")
        assert (again["differences"], again["found"]) == ([], 1)
    finally:
        lost.kill()
        lost.wait()
    await rig.refuses_wrong_types("census.verify")


def dead_pid():
    dead = subprocess.Popen(["true"])
    dead.wait()
    return dead.pid


@contextlib.asynccontextmanager
async def verifying(rig):
    """A verification that has seen something, and waits for its owner to notice."""
    clock = rig.gateway.ports.clock
    waiting = clock.pending
    asked = asyncio.create_task(rig.call("census.verify"))
    async with asyncio.timeout(30):
        while clock.pending == waiting:
            await asyncio.sleep(0)
    yield asked
    async with asyncio.timeout(30):
        while not asked.done():
            clock.advance(NOTICE_S / NOTICE_LOOKS)
            await asyncio.sleep(0)


async def test_what_is_held_and_runs_no_more_is_told(rig):
    session = rig.live(await rig.session())
    pid = dead_pid()
    mine = session.scope.own("thing", None, lambda _: None, label="of mine", pid=pid)
    async with verifying(rig) as asked:
        begun = rig.gateway.ports.clock.monotonic()
    assert rig.gateway.ports.clock.monotonic() - begun >= NOTICE_S - 0.1
    (one,) = (await asked)["differences"]
    assert (one["kind"], one["what"], one["pid"]) == ("gone", "thing of mine", pid)
    assert one["owner"] == session.scope.path and not one["healed"]
    assert (await asked)["found"] == 1
    await mine.release()
    alive = session.scope.own("thing", None, lambda _: None, pid=os.getpid())
    assert (await rig.call("census.verify"))["differences"] == []
    await alive.release()


@pytest.mark.parametrize("case", ["noticed", "released", "died later"])
async def test_what_changes_meanwhile_is_no_difference(rig, case):
    session = rig.live(await rig.session())
    first = session.scope.own("thing", None, lambda _: None, pid=dead_pid())
    second = session.scope.own("thing", None, lambda _: None, pid=os.getpid())
    async with verifying(rig) as asked:
        if case == "released":
            await first.release()
        first.pid = None
        if case == "died later":
            second.pid = dead_pid()
    assert (await asked)["differences"] == []
    await first.release()
    await second.release()


async def test_what_could_not_be_released_is_told(rig):
    session = rig.live(await rig.session())
    thing = session.scope.own("thing", None, lambda _: None, grace_s=1, label="stuck")
    thing.__enter__()
    releasing = asyncio.create_task(thing.release())
    await settle()
    rig.gateway.ports.clock.advance(1)
    await releasing
    (one,) = (await rig.call("census.verify"))["differences"]
    assert (one["kind"], one["what"]) == ("leaked", "thing stuck")
    thing.__exit__(None, None, None)
    assert (await rig.call("census.verify"))["differences"] == []


async def test_a_child_that_has_exited_is_held_without_its_pid(rig):
    session = rig.live(await rig.session())
    child = await session.ports.spawner.spawn(session.scope, ["true"], label="short")
    await child.wait()
    (row,) = [e for e in session.scope.census() if e.label == "short"]
    assert row.pid is None
    assert (await rig.call("census.verify"))["differences"] == []
    await child.stop()
