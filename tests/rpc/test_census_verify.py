"""census.verify: what is held against what runs."""

from __future__ import annotations

import os
import subprocess

import pytest

from tenure.processes.containment import LABEL
from tenure.processes.watchman import Found, Watchman


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
        assert lost.wait(5) == -15
        again = await rig.call("census.verify")
        assert (again["differences"], again["found"]) == ([], 1)
    finally:
        lost.kill()
        lost.wait()
    await rig.refuses_wrong_types("census.verify")


async def test_what_is_held_and_runs_no_more_is_told(rig):
    session = rig.live(await rig.session())
    dead = subprocess.Popen(["true"])
    dead.wait()
    mine = session.scope.own("thing", None, lambda _: None, label="of mine", pid=dead.pid)
    (one,) = (await rig.call("census.verify"))["differences"]
    assert (one["kind"], one["what"], one["pid"]) == ("gone", "thing of mine", dead.pid)
    assert one["owner"] == session.scope.path and not one["healed"]
    await mine.release()
    alive = session.scope.own("thing", None, lambda _: None, pid=os.getpid())
    assert (await rig.call("census.verify"))["differences"] == []
    await alive.release()


@pytest.mark.parametrize("case", ["noticed", "died now", "told already"])
async def test_what_changes_meanwhile_is_no_difference(rig, monkeypatch, case):
    session = rig.live(await rig.session())
    dead = subprocess.Popen(["true"])
    dead.wait()
    pid = os.getpid() if case == "died now" else dead.pid
    mine = session.scope.own("thing", None, lambda _: None, pid=pid)
    looked = Watchman.verify

    async def verify(self):
        mine.pid = None if case == "noticed" else dead.pid
        told = [Found("gone", "it", "", dead.pid, healed=False)] if case == "told already" else []
        return [*await looked(self), *told]

    monkeypatch.setattr(Watchman, "verify", verify)
    found = (await rig.call("census.verify"))["differences"]
    assert [one["what"] for one in found] == (["it"] if case == "told already" else [])
    await mine.release()


async def test_a_child_that_has_exited_is_held_without_its_pid(rig):
    session = rig.live(await rig.session())
    child = await session.ports.spawner.spawn(session.scope, ["true"], label="short")
    await child.wait()
    (row,) = [e for e in session.scope.census() if e.label == "short"]
    assert row.pid is None
    assert (await rig.call("census.verify"))["differences"] == []
    await child.stop()
