"""Case 73: what runs is compared with what is held, all the time; a living gateway excuses nothing."""

from __future__ import annotations

import asyncio
import os
import subprocess

import pytest

from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.processes.containment import LABEL
from tenure.processes.procfs import read_stat
from tenure.processes.spawn import Spawner
from tenure.processes.watchman import Ceiling, Watchman


class Quick(SystemClock):
    """Looks follow each other without a pause."""

    async def sleep(self, delay_s):
        await super().sleep(min(delay_s, 0.01))


@pytest.fixture
async def root():
    scope = Scope.root("gateway", SystemClock())
    yield scope
    await scope.close()


async def test_a_child_that_was_never_registered_is_ended_and_a_registered_one_is_not(root):
    spawner = Spawner(instance="test-0", environ=dict(os.environ), clock=SystemClock())
    watchman = Watchman(root.child("watch"), spawner, Quick(), Ceiling)
    held = await spawner.spawn(root, ["sleep", "600"], owner="one")
    watchman.begin()
    for number in (1001, 1002):  # not only at a start: each time
        label = f"test-0/one/{spawner.mark}-{number}"
        lost = subprocess.Popen(
            ["sleep", "600"], env={**os.environ, LABEL: label}, start_new_session=True
        )
        try:
            async with asyncio.timeout(30):
                while lost.poll() is None:
                    await asyncio.sleep(0.01)
            assert lost.returncode == -15
        finally:
            lost.kill()
            lost.wait()
    assert held.returncode is None
    assert not read_stat(held.pid).gone
    assert watchman.found == 2


async def test_one_that_is_just_being_started_is_no_stray(root):
    """Its tree is held from before it runs."""
    spawner = Spawner(instance="test-0", environ=dict(os.environ), clock=SystemClock())
    watchman = Watchman(root.child("watch"), spawner, SystemClock(), Ceiling)
    seen = []
    begun = spawner.begun

    def look():
        begun()
        seen.append(dict(spawner.trees))

    spawner.begun = look
    process = await spawner.spawn(root, ["sleep", "600"], owner="one")
    assert [tree.process for tree in seen[0].values()] == [process]
    assert (await watchman.look()).strays == ()
