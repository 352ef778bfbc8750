"""Case 61: a stop ends all that a command started; a background process survives it, not a close.

A daemon that clears its environment as well is the guard's to catch: see the tests of processes.
"""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from tenure.clock import SystemClock
from tenure.models.script import Script
from tenure.processes.procfs import read_stat
from tenure.testing.desk import Desk
from tenure.testing.gateway import open_test_gateway
from tenure.tools.background import Background
from tenure.tools.registry import tools_for
from tenure.tools.shell import Shell

SPREAD = """
setsid sleep 1001 &
echo $! >> pids
( ( exec sleep 1002 ) & echo $! >> pids ) &
{python} -c '
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("pids", "a").write(str(os.getpid()) + "\\n")
        os.execvp("sleep", ["sleep", "1003"])
' &
while true; do sleep 1004; done &
echo $! >> pids
until [ "$(wc -l < pids)" -ge 4 ]; do sleep 0.01; done
echo ready
"""


@pytest.fixture
async def desk(tmp_path):
    desk = Desk(tmp_path, dict(os.environ))
    yield desk
    await desk.root.close()


def alive(pid):
    stat = read_stat(pid)
    return stat is not None and not stat.gone


def spread(desk, rest=""):
    return SPREAD.format(python=sys.executable) + rest


def pids(desk):
    return [int(line) for line in (desk.cwd / "pids").read_text().split()]


async def ready(desk):
    async with asyncio.timeout(30):
        while "ready" not in "".join(desk.shown):
            await asyncio.sleep(0.005)


async def test_a_stop_in_the_middle_ends_every_descendant(desk):
    shell = Shell(1_000, 60)
    task = asyncio.ensure_future(desk.call(shell, command=spread(desk, "sleep 1005")))
    await ready(desk)
    assert all(map(alive, pids(desk)))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(map(alive, pids(desk)))


async def test_the_end_of_the_command_ends_what_it_left_and_says_so(desk):
    result = await desk.call(Shell(1_000, 60), command=spread(desk))
    assert not any(map(alive, pids(desk)))
    assert "that it left running ended" in result.text


@pytest.mark.parametrize("how", ["session.interrupt", "session.close", "session.delete"])
async def test_stop_close_and_delete_over_the_wire(tmp_path, how):
    command = SPREAD.format(python=sys.executable) + "sleep 1005"
    call = {"call": {"name": "shell", "arguments": {"command": command}}}
    async with open_test_gateway(
        tmp_path, Script([[call], {"text": "."}]), tools=tools_for, clock=SystemClock()
    ) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session(auto_approve=True)
        await client.call("prompt.submit", session_id=sid, text="go")
        while "ready" not in (await client.until("tool.progress", sid)).payload["text"]:
            pass
        started = [int(line) for line in (tmp_path / "pids").read_text().split()]
        assert len(started) == 4 and all(map(alive, started))
        await client.call(how, session_id=sid)
        async with asyncio.timeout(30):
            while any(map(alive, started)):
                await asyncio.sleep(0.005)


async def test_the_background_survives_the_turn_and_ends_with_the_session(desk):
    job = Background(1_000, 4)
    await desk.call(job, action="start", command=spread(desk, "wait"))
    (started,) = desk.state["background"].all()
    async with asyncio.timeout(30):
        while b"ready" not in started.ring.since(0)[0]:
            await asyncio.sleep(0.005)
    await desk.end_turn()
    assert all(map(alive, pids(desk)))
    await desk.session.close("closed by a test")
    assert not any(map(alive, pids(desk)))
