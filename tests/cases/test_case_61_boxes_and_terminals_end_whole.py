"""Case 61: what runs in a box or on a terminal ends whole, whatever it has done to get away."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from support.boxes import Ground, needs_bwrap, read_until
from tenure.processes.procfs import read_stat
from tenure.processes.terminal import Screen
from tenure.tools.terminals import Terminals

ONES = [f"61{n}{os.getpid()}" for n in range(3)]
"""Seconds that nobody else sleeps for, not even another run of these tests."""
AWAY = "(setsid env -i setsid sleep {0} &) ; (exec setsid sleep {0} &) ; sleep {0} & "


@pytest.fixture
async def ground(tmp_path):
    ground = Ground(tmp_path)
    yield ground
    await ground.root.close()


def sleepers(seconds):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except OSError:
            continue
        if words[:2] == ["sleep", seconds]:
            found.append(int(pid))
    return found


async def all_there(seconds):
    async with asyncio.timeout(30):
        while len(sleepers(seconds)) < 3:
            await asyncio.sleep(0.01)


@needs_bwrap
async def test_a_stop_of_a_boxed_command_ends_what_has_left_its_session_and_environment(ground):
    process = await ground.start(ground.box(), AWAY.format(ONES[0]) + "echo ready; wait")
    await read_until(process, "ready")
    await all_there(ONES[0])
    await process.stop()
    assert sleepers(ONES[0]) == []


@needs_bwrap
async def test_so_does_the_end_of_the_command_itself_when_it_is_stopped_after(ground):
    process = await ground.start(ground.box(), AWAY.format(ONES[1]) + "sleep 0.1; echo over")
    await read_until(process, "over")
    await process.wait()
    assert await process.count_left() == 3
    await process.stop()
    assert sleepers(ONES[1]) == []


async def test_a_terminal_survives_a_turn_and_its_watchers_and_ends_with_the_session(ground):
    box = ground.local()

    async def sandbox():
        return box

    terminals = Terminals(ground.session, sandbox, ground.root.clock, lambda *_: None)
    command = (
        "trap '' HUP INT TERM; (trap '' HUP INT TERM; exec sleep " + ONES[2] + ") & wait; wait"
    )
    terminal = await terminals.open(command, Screen())
    await ground.turn.close()
    async with asyncio.timeout(30):
        while not sleepers(ONES[2]):
            await asyncio.sleep(0.01)
    assert terminal.running
    await ground.session.close()
    stat = read_stat(terminal.shown()["pid"])
    assert (stat is None or stat.gone) and sleepers(ONES[2]) == []


SHELL = (
    "import signal; signal.signal(signal.SIGTERM, 1); print('ready', flush=True); signal.pause()"
)
"""As an interactive one, which ignores SIGTERM, too, but reads a hangup at its prompt alone."""


async def test_an_interactive_shell_that_ignores_terminate_hears_the_hangup(ground):
    shell = [sys.executable, "-c", SHELL]
    process = await ground.spawner.spawn(ground.turn, shell, screen=Screen(), grace_s=16.0)
    await read_until(process, "ready\r\n")
    await process.stop()
    assert process.returncode == -signal.SIGHUP
