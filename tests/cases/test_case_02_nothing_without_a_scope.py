"""Case 2: no kind of thing can be had without a scope that is open, and none stays behind."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tenure.app import open_store
from tenure.browser.lending import Browsers
from tenure.browser.proxy import open_proxy
from tenure.clock import SystemClock
from tenure.config import Home
from tenure.errors import ScopeClosed
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import run_in_thread
from tenure.net.addresses import AddressRules
from tenure.net.dialing import Dialer
from tenure.processes.spawn import Spawner
from tenure.processes.terminal import Screen
from tenure.sandbox.base import Order
from tenure.sandbox.bubblewrap import Bubblewrap, Layout
from tenure.settings import BrowserConfig
from tenure.testing.browser import FakeBrowser, found_for_tests
from tenure.testing.plugin import open_fds
from tenure.testing.waiting import until

ORDER = Order(("sleep", "600"))


class Ground:
    """What the openers need, in a scope that lives, and one that is closed."""

    def __init__(self, root: Scope, closed: Scope, folder: Path) -> None:
        self.root = root
        self.closed = closed
        self.folder = folder
        environ = dict(os.environ)
        self.spawner = Spawner(instance="test-0", environ=environ, clock=SystemClock())


async def child(ground: Ground) -> object:
    return await ground.spawner.spawn(ground.closed, ORDER.argv)


async def terminal(ground: Ground) -> object:
    return await ground.spawner.spawn(ground.closed, ORDER.argv, screen=Screen())


async def sandbox(ground: Ground) -> object:
    layout = Layout(ground.folder, ground.folder, ground.folder / "home", ground.folder / "boxes")
    return await Bubblewrap(ground.spawner, layout, "s", ground.closed, "").start(
        ground.root, ORDER
    )


async def browser(ground: Ground) -> object:
    async def start(scope: Scope, config: BrowserConfig) -> FakeBrowser:
        return FakeBrowser({}, ground.folder)

    browsers = Browsers(ground.root.child("browsers"), start, found_for_tests)
    return await browsers.borrow(BrowserConfig(), ground.closed)


async def proxy(ground: Ground) -> object:
    dialer = Dialer(AddressRules(()), ground.closed.clock)
    return await open_proxy(ground.closed, dialer, bytes_max=1)


async def database(ground: Ground) -> object:
    return await open_store(ground.closed, Home(ground.folder, ground.folder))


async def thread(ground: Ground) -> object:
    return await run_in_thread(ground.closed, str)


async def task(ground: Ground) -> object:
    async def work() -> None:
        raise AssertionError("it ran")

    return ground.closed.spawn(work(), name="work")


async def folder(ground: Ground) -> object:
    path = ground.folder / "private"
    path.mkdir()
    return ground.closed.own("folder", path, lambda made: made.rmdir())


async def below(ground: Ground) -> object:
    return ground.closed.child("below")


OPENERS = (child, terminal, sandbox, browser, proxy, database, thread, task, folder, below)


@pytest.mark.parametrize("opener", OPENERS, ids=lambda one: one.__name__)
async def test_a_closed_scope_gives_nothing_and_keeps_nothing(root, tmp_path, opener):
    closed = root.child("closed")
    await closed.close()
    ground = Ground(root, closed, tmp_path)
    children = set(Path("/proc/self/task").glob("*/children"))
    held = lambda: (len(open_fds()), threading.active_count(), list(tmp_path.iterdir()))  # noqa: E731
    before = held()
    with pytest.raises(ScopeClosed):
        await opener(ground)
    await until(lambda: held() == before, "a thread that has refused has ended")
    assert not any(path.read_text() for path in children if path.exists())
    assert closed.census() == []
    assert ground.spawner.trees == {}
