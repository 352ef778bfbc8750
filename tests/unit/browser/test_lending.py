"""Lending a browser: what is remembered of those that end late."""

from __future__ import annotations

import asyncio

from tenure.browser.found import Found
from tenure.browser.lending import GRACE_S, Browsers
from tenure.settings import BrowserConfig
from tenure.testing.clock import settle
from tenure.testing.gates import Gate


class Fake:
    """Runs until it is killed; its end takes as long as it is held."""

    def __init__(self):
        self.gone, self.over, self.ends = False, asyncio.Event(), Gate()

    def kill(self):
        self.gone = True
        self.over.set()

    async def wait_gone(self):
        await self.over.wait()


async def test_one_that_ends_late_does_not_take_its_successor_along(root, clock):
    started = []

    async def start(scope, _config):
        started.append(Fake())
        scope.own("browser process", started[-1], lambda one: one.ends.park(), grace_s=1_000)
        return started[-1]

    browsers = Browsers(root.child("browsers"), start, lambda _: Found("/chromium"))
    sessions = [root.child(name) for name in "abcd"]
    first = await browsers.borrow(BrowserConfig(), sessions[0])
    first.kill()
    await settle()
    waiting = root.spawn(browsers.borrow(BrowserConfig(), sessions[1]), name="b").value
    await settle()
    clock.advance(GRACE_S)  # its borrower keeps it, and its end is not waited for any longer
    second = await waiting
    await sessions[0].close("a")
    first.ends.release()
    await settle()
    await sessions[1].close("b")
    second.ends.release()
    second.kill()  # not yet found out: whoever comes now must not get it
    third = await browsers.borrow(BrowserConfig(), sessions[2])
    assert [first, second, third] == started
    for one in started:
        one.ends.release()
    for session in sessions:
        await session.close("over")
    report = await browsers._scope.close("over")
    assert [failure.error for failure in report.failures] == ["still borrowed"]  # as it was told
    assert [entry.kind for entry in root.census() if "browsers" in entry.owner] == []
