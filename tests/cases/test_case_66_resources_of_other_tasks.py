"""Case 66: task-bound resources of other libraries, opened together and closed in any order."""

from __future__ import annotations

import asyncio
import random

import pytest

from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope


class TaskBound:
    """Like a cancel scope of another library: refuses to be left by another task."""

    def __init__(self, log):
        self._log = log
        self._task = None

    async def __aenter__(self):
        self._task = asyncio.current_task()
        return self

    async def __aexit__(self, *_exc):
        if asyncio.current_task() is not self._task:
            raise RuntimeError("left in another task than it was entered in")
        self._log.append("left")


async def hold(scope, log):
    """One keeper task opens and closes it; others only ask: the resource lives while the task does."""
    opened = asyncio.get_running_loop().create_future()

    async def keep():
        async with TaskBound(log) as resource:
            opened.set_result(resource)
            await asyncio.get_running_loop().create_future()

    lease = scope.spawn(keep(), name="keeper")
    await opened
    return lease


@pytest.mark.parametrize("order", ["fifo", "lifo", "shuffled", "by the scope"])
async def test_five_are_opened_by_one_task_and_closed_by_another(order):
    log = []
    root = Scope.root("r", SystemClock())
    leases = [await hold(root, log) for _ in range(5)]
    if order == "lifo":
        leases.reverse()
    elif order == "shuffled":
        random.Random(66).shuffle(leases)
    closer = Scope.root("closer", SystemClock())

    async def close():
        for lease in leases:
            await lease.release()

    if order != "by the scope":
        await closer.spawn(close(), name="close").value
    report = await root.close()
    await closer.close()
    ready = asyncio.get_running_loop()._ready
    for _ in range(1_000):  # a cancel that is sent again and again would be ready in every one
        await asyncio.sleep(0)
        assert not ready
    assert log == ["left"] * 5
    assert report.failures == () and root.census() == []


async def test_a_cancelled_opener_leaves_the_build_to_its_keeper():
    log = []
    root = Scope.root("r", SystemClock())
    started, go_on = asyncio.Event(), asyncio.Event()

    async def start():
        started.set()
        await go_on.wait()
        log.append("opened")
        return "it"

    opener = root.spawn(root.build("server", start, lambda _: log.append("closed")), name="open")
    await started.wait()
    await opener.release()
    go_on.set()
    report = await root.close()
    assert log == ["opened", "closed"] and report.failures == ()
