"""Case 68: 200 double forks leave no zombie, below a guard and as process 1 of its own namespace."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.needs import UNSHARE

SRC = os.path.dirname(os.path.dirname(sys.modules["tenure"].__file__))

GATEWAY = (
    """
import sys
sys.path.insert(0, %r)
from tenure.processes.guard import start_guard
guarded = start_guard()
import asyncio, os
from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.processes.procfs import all_stats
from tenure.processes.spawn import Spawner
from tenure.processes.watch import OrphanReaper, watch_guard

def zombies():
    mine = {os.getpid(), os.getppid()}
    return [stat for stat in all_stats() if stat.state == "Z" and stat.ppid in mine]

async def main():
    root = Scope.root("gateway", SystemClock())
    spawner = Spawner(instance="i", environ=os.environ, clock=root.clock)
    watch_guard(root, guarded, lambda: None)
    reaper = OrphanReaper(root, spawner)
    call = "for i in 1 2 3 4 5 6 7 8 9 10; do (setsid true &); done"
    for _ in range(20):
        process = await spawner.spawn(root, ["sh", "-c", call], stderr="null")
        await process.wait()
        await process.stop()
    async with asyncio.timeout(30):
        while zombies():
            await asyncio.sleep(0.02)
    await root.close()
    print("zombies", len(zombies()), "reaped", reaper.reaped > 100)

asyncio.run(main())
"""
    % SRC
)


def run(tmp_path, *prefix: str) -> str:
    script = tmp_path / "gateway.py"
    script.write_text(GATEWAY)
    done = subprocess.run(
        [*prefix, sys.executable, str(script)],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_below_a_guard(tmp_path):
    assert run(tmp_path) == "zombies 0 reaped True"


@pytest.mark.needs("namespaces")
def test_as_process_1_of_a_pid_namespace(tmp_path):
    assert run(tmp_path, *UNSHARE) == "zombies 0 reaped True"
