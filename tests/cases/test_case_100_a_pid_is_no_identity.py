"""Case 100: what is ended is known by pid, start and boot; a pid alone names somebody else."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.processes.procfs import open_pidfd, read_stat, send_signal
from tenure.processes.spawn import Spawner
from tenure.processes.watchman import Ceiling, Watchman


@pytest.fixture
def victim():
    """A process that has nothing to do with us, but a pid that is written down somewhere."""
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


async def test_a_pid_that_was_taken_by_another_is_left_alone(victim):
    old = read_stat(victim.pid)._replace(start_time=1)
    root = Scope.root("gateway", SystemClock())
    spawner = Spawner(instance="test-0", environ=dict(os.environ), clock=SystemClock())
    watchman = Watchman(root, spawner, SystemClock(), Ceiling)
    await watchman._end([old])
    send_signal(old, signal.SIGKILL)
    assert open_pidfd(old) is None
    assert victim.poll() is None
    await root.close()


def test_looking_at_a_process_does_nothing_to_it(victim):
    before = read_stat(victim.pid)
    for _ in range(10):
        assert read_stat(victim.pid)._replace(state="") == before._replace(state="")
    fd = open_pidfd(before)
    os.close(fd)
    assert victim.poll() is None
