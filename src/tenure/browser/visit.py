"""One session's use of the browser: a context of its own, from its first page until it is unused.

    session
    ├── browser             a scope: the borrowed browser, then the context in it
    └── end of the visit    a task that closes that scope when the browser has ended or is unused

What was lost by that is told once, with the next call; then there is a new context.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from tenure.browser.client import Browser
from tenure.browser.lending import Browsers
from tenure.browser.protocol import Action, Outcome, Rules
from tenure.clock import Clock
from tenure.errors import BrowserGone, ToolError
from tenure.ids import new_id
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.scope import Scope
from tenure.settings import BrowserConfig

FAMILY = "browser"
CONTEXT_GRACE_S = 6.0


class Visit:
    """An open context. Made and ended by `Visits`."""

    def __init__(self, scope: Scope, browser: Browser, context: str) -> None:
        self.scope = scope
        self.browser = browser
        self.context = context
        self.used_at = scope.clock.monotonic()
        self.acting = 0
        self.lost = ""
        """Why it has ended by itself, with what was lost by that."""
        self.told = False
        """A call has said that already."""


class Visits:
    """A session's visits, one at a time. In its tool state; its scope owns what is open.

    Args:
        session: the session's scope.
        name: the session's id, for the census.
        browsers: who lends.
    """

    def __init__(self, session: Scope, name: str, browsers: Browsers) -> None:
        self._session = session
        self._name = name
        self._browsers = browsers
        self._visit: Visit | None = None
        self._last: Visit | None = None
        self._turn = asyncio.Lock()

    @property
    def open(self) -> bool:
        """Whether there are pages."""
        return self._visit is not None

    @staticmethod
    def of(state: dict[str, Any], session: Scope, name: str, browsers: Browsers) -> Visits:
        """The session's."""
        visits = state.setdefault(FAMILY, Visits(session, name, browsers))
        assert isinstance(visits, Visits)
        return visits

    async def act(self, action: Action, config: BrowserConfig, rules: Rules) -> Outcome:
        """Do one thing, in a new context if there is none. Cancellable.

        Raises:
            ToolError: it cannot be done; or what it would be done with was lost, said once.
            BrowserGone: the browser ended under it.
        """
        async with self._turn:
            if self._visit is not None and self._visit.browser.gone:
                await self._visit.scope.wait_closed()  # the watcher is about to
            lost = self._take_lost()
            if lost and action.verb != "navigate":
                raise ToolError(f"{lost} Navigate again.")
            if self._visit is None and action.verb != "navigate":
                raise ToolError("No page is open; navigate first.")
            visit = self._visit or await self._begin(config, rules)
        outcome = await self._act_in(visit, action)
        if lost:
            return Outcome(f"[{lost}]\n{outcome.text}", outcome.url, outcome.file, outcome.name)
        return outcome

    def _take_lost(self) -> str:
        """What was lost since the last call, unless that call has said it."""
        last, self._last = self._last, None
        return "" if last is None or last.told else last.lost

    async def _act_in(self, visit: Visit, action: Action) -> Outcome:
        visit.acting += 1
        try:
            return await visit.browser.act(visit.context, action)
        except BrowserGone:
            visit.told = True
            raise
        finally:
            visit.acting -= 1
            visit.used_at = visit.scope.clock.monotonic()

    async def _begin(self, config: BrowserConfig, rules: Rules) -> Visit:
        """Borrow, make a context, watch over both; all or nothing."""
        scope = self._session.child("browser")
        context = new_id("context")
        try:
            browser = await self._browsers.borrow(config, scope)
            await scope.build(
                "browser context",
                lambda: browser.open(context, rules),
                lambda _: browser.close(context),
                kill=lambda _: browser.kill(),
                grace_s=CONTEXT_GRACE_S,
                label=self._name,
            )
            visit = Visit(scope, browser, context)
            self._session.spawn(self._watch(visit, config), name="end of the visit")
        except BaseException:
            await scope.close("not begun")
            raise
        self._visit = visit
        return visit

    async def _watch(self, visit: Visit, config: BrowserConfig) -> None:
        """Wait until the browser has ended or the context is unused; then close the scope."""
        clock = visit.scope.clock
        gone = ""
        while not gone and (left_s := _left_s(visit, clock, config.idle_s)) > 0:
            with contextlib.suppress(TimeoutError):
                async with deadline(clock, left_s):
                    gone = await visit.browser.wait_gone()
        if gone:
            lost = f"The browser has ended ({gone}), and with it the open pages and their cookies."
        else:
            lost = f"The pages were closed: nobody used them for {config.idle_s:.0f} s."
        if self._visit is visit:
            self._visit = None
            visit.lost = lost
            self._last = visit
        await visit.scope.close("the browser has ended" if gone else "unused")


def pages_open(state: Mapping[str, Any]) -> bool:
    """Whether a session with that tool state has pages open."""
    found = state.get(FAMILY)
    return isinstance(found, Visits) and found.open


def _left_s(visit: Visit, clock: Clock, idle_s: float) -> float:
    """Seconds until the context counts as unused; at least a moment while something is done."""
    left_s = visit.used_at + idle_s - clock.monotonic()
    return max(left_s, 1.0) if visit.acting else left_s
