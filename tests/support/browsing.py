"""Sessions that share browsers which a test can see and end."""

from __future__ import annotations

from typing import Any

from tenure.browser.lending import Browsers
from tenure.browser.protocol import Action, Rules
from tenure.browser.visit import Visits
from tenure.lifecycle.scope import Scope
from tenure.settings import BrowserConfig
from tenure.testing.browser import FakeBrowser, FakePage, found_for_tests
from tenure.testing.gates import Gate

SITE = {
    "http://a.test/": FakePage("A", links={"Next": "/next"}, fields=("Name",)),
    "http://a.test/next": FakePage("Next"),
}


class Rig:
    """A gateway's browsers, all of them fakes, and sessions.

    Attributes:
        started: every browser so far; the last one is the present one.
        gate: holds the start of a browser.
        failure: raised instead of starting one.
    """

    def __init__(self, root: Scope, folder: Any, **config: Any) -> None:
        self.root = root
        self.folder = folder
        self.config = BrowserConfig(**config)
        self.started: list[FakeBrowser] = []
        self.ended: list[FakeBrowser] = []
        self.gate: Gate | None = None
        self.failure: Exception | None = None
        self.site = dict(SITE)
        self.browsers = Browsers(root.child("browsers"), self._start, found_for_tests)
        self._sessions: dict[str, tuple[Scope, dict[str, Any]]] = {}

    async def _start(self, scope: Scope, config: BrowserConfig) -> FakeBrowser:
        browser = FakeBrowser(self.site, self.folder)
        scope.own("fake browser", browser, self.ended.append)
        self.started.append(browser)
        if self.gate is not None:
            await self.gate.park()
        if self.failure is not None:
            raise self.failure
        return browser

    @property
    def running(self) -> int:
        """Browsers that are there now."""
        return len(self.started) - len(self.ended)

    def session(self, name: str = "s") -> tuple[Scope, dict[str, Any]]:
        """The scope and the tool state of a session."""
        if name not in self._sessions:
            self._sessions[name] = self.root.child(name), {}
        return self._sessions[name]

    async def act(self, verb: Any = "navigate", name: str = "s", **more: Any) -> str:
        """One action of a session; the text."""
        scope, state = self.session(name)
        if verb == "navigate":
            more.setdefault("url", "http://a.test/")
        visits = Visits.of(state, scope, name, self.browsers)
        outcome = await visits.act(Action(verb, **more), self.config, Rules())
        return outcome.text

    async def close(self, name: str = "s") -> None:
        """End a session."""
        scope, _ = self._sessions.pop(name)
        await scope.close("closed")

    def held(self, part: str = "") -> list[str]:
        """What is held below paths that contain `part`."""
        return [
            f"{e.kind} {e.label}".strip()
            for e in self.root.census()
            if f"/{part}/" in f"/{e.owner}/"
        ]
