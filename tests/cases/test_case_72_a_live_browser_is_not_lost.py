"""Case 72: no timeout and no clean-up loses sight of a browser that runs; the last user ends it."""

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from support.browsing import Rig
from support.chromium import INSTANCE, World, end, processes
from tenure.browser import client
from tenure.browser.lending import IDLE_S
from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.processes.spawn import Spawner
from tenure.settings import BrowserConfig
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.model_server import ModelServer


async def test_a_start_that_nobody_waits_for_any_more_is_used_or_ended(root, tmp_path, clock):
    rig = Rig(root, tmp_path)
    gate = rig.gate = Gate()
    task = asyncio.ensure_future(rig.act())
    await gate.wait_parked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.release()
    await settle()
    clock.advance(IDLE_S)
    await settle()
    assert (len(rig.started), rig.running) == (1, 0)
    assert rig.held("browsers") == []


async def test_two_sessions_share_one_and_the_second_close_ends_it(root, tmp_path, clock):
    rig = Rig(root, tmp_path)
    await rig.act(name="a")
    await rig.act(name="b")
    await rig.close("a")
    clock.advance(IDLE_S + 1)
    await settle()
    assert rig.running == 1
    await rig.close("b")
    clock.advance(IDLE_S + 1)
    await settle()
    assert (len(rig.started), rig.running) == (1, 0)


LEAVES = """
import subprocess, sys
sys.stdin.readline()
subprocess.Popen(["sleep", "1000"], start_new_session=True)
print('{"version": "1"}', flush=True)
"""


async def test_what_a_dead_host_leaves_is_ended_though_nobody_gives_it_back(tmp_path, monkeypatch):
    monkeypatch.setattr(client, "python_argv", lambda _: (sys.executable, "-c", LEAVES))
    root = Scope.root("test", SystemClock())
    spawner = Spawner(instance=INSTANCE, environ=dict(os.environ), clock=root.clock)
    folder = tmp_path / "folder"
    folder.mkdir()
    browser = await client.start_browser(root, spawner, "/bin/true", BrowserConfig(), folder)
    await browser.wait_gone()
    async with asyncio.timeout(30):
        while processes("sleep"):
            await asyncio.sleep(0.01)
    await root.close()


@pytest.mark.slow
@pytest.mark.needs("chromium")
async def test_the_browser_goes_with_its_host(tmp_path):
    folder = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    async with ModelServer() as server:
        world = World(server, folder)
        world.page("/", "<title>Here</title>")
        await world.open()
        assert len(processes()) > 3
        end(processes("tenure.browser.host")[0])
        await world.until(lambda: processes() == [])
        await world.until(lambda: not os.listdir(folder))
        await world.aclose()
    shutil.rmtree(folder)
