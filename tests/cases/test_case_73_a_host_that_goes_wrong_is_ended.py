"""Case 73: a host that fails between its start and its first word is ended, and its folder goes."""

import os
import sys
from pathlib import Path

import pytest

from tenure.browser import client
from tenure.browser.client import start_browser
from tenure.browser.found import Found
from tenure.browser.lending import Browsers
from tenure.clock import SystemClock
from tenure.errors import ToolError
from tenure.lifecycle.scope import Scope
from tenure.processes.spawn import Spawner
from tenure.settings import BrowserConfig

READY = 'sys.stdin.readline(); print(\'{"version": "1"}\', flush=True);'
HOSTS = {
    "dies at once": ("sys.exit(3)", "does not start"),
    "speaks garbage": ("print('garbage', flush=True); sys.stdin.read()", "does not start"),
    "floods": ("[print('x' * 10**6) for _ in range(9)]; sys.stdin.read()", "does not start"),
    "says why not": (
        'sys.stdin.readline(); print(\'{"error": "No screen."}\', flush=True)',
        r"No screen\.",
    ),
    "is silent and deaf": (
        "import signal; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]; time.sleep(1000)",
        r"did not start within 0 s",
    ),
    "garbage later": (
        READY + "sys.stdin.readline(); print('[', flush=True); time.sleep(1000)",
        "ended",
    ),
    "dies later": (READY + "sys.stdin.readline(); sys.exit(1)", "ended"),
}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.timeout(20)  # without its guard it would hang
async def test_nothing_of_it_is_left(tmp_path, monkeypatch, host):
    code, why = HOSTS[host]
    monkeypatch.setattr(client, "START_S", 0.4)
    monkeypatch.setattr(
        client, "python_argv", lambda _: (sys.executable, "-c", f"import sys, time; {code}")
    )
    root = Scope.root("test", SystemClock())
    spawner = Spawner(instance="test", environ=dict(os.environ), clock=root.clock)
    folders = []

    async def start(scope, config):
        folders.append(tmp_path / f"folder-{len(folders)}")
        folders[-1].mkdir()
        return await start_browser(scope, spawner, config.executable, config, folders[-1])

    browsers = Browsers(root.child("browsers"), start, lambda _: Found("/bin/true"))
    for _ in range(2):
        session = root.child("session")
        with pytest.raises(ToolError, match=why):
            browser = await browsers.borrow(BrowserConfig(), session)
            await browser.open("c", client.Rules())
        await session.close()
        if why != "ended":  # one that has started is kept a while
            assert [entry.kind for entry in root.census() if "browsers" in entry.owner] == []
            assert not any(map(Path.exists, folders))
    await root.close()
    assert root.census() == []
    assert not any(map(Path.exists, folders))
