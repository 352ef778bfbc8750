"""One browser for all sessions, lent to those that have pages open.

It is started for its first borrower and ended `IDLE_S` after the last one has given it back. One
that has ended is never lent: whoever had it gives it back at once (`visit.py`), and the next
borrower gets another. Old and new never coexist.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tenure.browser.client import Browser, remove_folder, start_browser
from tenure.browser.found import Found, find_browser
from tenure.errors import ToolError
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.shared import Shared
from tenure.lifecycle.threads import run_in_thread
from tenure.processes.spawn import Spawner
from tenure.settings import BrowserConfig

IDLE_S = 60.0
"""How long a browser without any pages is kept."""
GRACE_S = 12.0
PREFIX = "tenure-browser-"
TEMPORARY_CHARS_MAX = 18
"""A socket's path has at most 107 bytes; below its folder, Chromium makes one of 45."""

Start = Callable[[Scope, BrowserConfig], Awaitable[Browser]]
"""Starts a browser in a scope, which then owns all of it."""


class _Kind(NamedTuple):
    """What a browser is started with; other limits are another browser."""

    executable: str
    page_mib: int
    total_mib: int

    def __str__(self) -> str:
        return "chromium"


class _Running:
    """A browser and the scope that ends it."""

    def __init__(self, scope: Scope, browser: Browser) -> None:
        self.scope = scope
        self.browser = browser


class Browsers:
    """Lends browsers. Loop thread only.

    Args:
        scope: where they live; it outlasts every session.
        start: starts one.
        look: whether there is one to start.
    """

    def __init__(self, scope: Scope, start: Start, look: Callable[[BrowserConfig], Found]) -> None:
        self._scope = scope
        self._start = start
        self.look = look
        self._visits = 0
        self._running: dict[_Kind, Browser] = {}
        self._shared: Shared[_Kind, _Running] = Shared(
            scope,
            "browser",
            build=self._build,
            release=lambda running: running.scope.close("unused"),
            idle_s=IDLE_S,
            grace_s=GRACE_S,
        )

    async def _build(self, kind: _Kind) -> _Running:
        scope = self._scope.child("browser")
        config = BrowserConfig(
            executable=kind.executable, page_mib=kind.page_mib, total_mib=kind.total_mib
        )
        try:
            browser = await self._start(scope, config)
            self._running[kind] = browser
            scope.own("running browser", (kind, browser), self._ended)
            scope.spawn(self._wait_gone(kind, browser), name="end of the browser")
            return _Running(scope, browser)
        except BaseException:
            await scope.close("not started")
            raise

    async def borrow(self, config: BrowserConfig, into: Scope) -> Browser:
        """A running browser; given back when `into` closes.

        Raises:
            ToolError: there is none, it does not start, or too many sessions have one.
            ScopeClosed: `into` admits nothing.
        """
        found = self.look(config)
        if found.missing:
            raise ToolError(f"{found.missing} {found.mend}")
        if self._visits >= config.sessions_max:
            raise ToolError(f"{self._visits} sessions have pages open already; try again later.")
        self._visits += 1
        into.own("browser visit", None, self._left)
        kind = _Kind(found.executable, config.page_mib, config.total_mib)
        last = self._running.get(kind)
        if last is not None and last.gone:  # not yet given back by all
            await self._shared.discard(kind)
        running = await self._shared.borrow(kind, into)
        return running.browser

    def _ended(self, one: tuple[_Kind, Browser]) -> None:
        kind, browser = one
        if self._running.get(kind) is browser:  # the end of one may come after the next start
            del self._running[kind]

    def _left(self, _: None) -> None:
        self._visits -= 1

    async def _wait_gone(self, kind: _Kind, browser: Browser) -> None:
        """Once it has ended it is lent no more, and released when all have given it back."""
        await browser.wait_gone()
        self._scope.spawn(self._shared.discard(kind), name="forget a browser")


def system_browsers(
    scope: Scope, spawner: Spawner, environ: Mapping[str, str], instance: str
) -> Browsers:
    """Browsers of this machine; what killed gateways of this home have left is removed.

    Args:
        scope: where they live.
        spawner: starts hosts.
        environ: for the PATH and the folder of temporary files.
        instance: ``home-start`` of this gateway.
    """
    temporary = temporary_folder(environ)

    async def start(into: Scope, config: BrowserConfig) -> Browser:
        prefix = f"{PREFIX}{instance}-"
        folder = await run_in_thread(into, _new_folder, temporary, prefix)
        return await start_browser(into, spawner, config.executable, config, folder)

    def look(config: BrowserConfig) -> Found:
        return find_browser(config, environ)

    scope.spawn(_sweep(scope, temporary, instance), name="sweep browser folders")
    return Browsers(scope, start, look)


def temporary_folder(environ: Mapping[str, str]) -> Path:
    """Where browsers have their folders: ``TMPDIR``, unless it is too long for their sockets."""
    named = environ.get("TMPDIR") or ""
    usable = named and len(named) <= TEMPORARY_CHARS_MAX
    return Path(named if usable else "/tmp")  # noqa: S108 - what is made in it has a name of its own


def _new_folder(temporary: Path, prefix: str) -> Path:
    import tempfile  # 8 ms, which only a browser needs

    return Path(tempfile.mkdtemp(prefix=prefix, dir=temporary))


async def _sweep(scope: Scope, temporary: Path, instance: str) -> None:
    await run_in_thread(scope, sweep_folders, temporary, instance)


def sweep_folders(temporary: Path, instance: str) -> int:
    """Remove the folders of earlier gateways of this home; how many. Blocks.

    Whoever holds the home is alone with it, so a folder of another start of it is nobody's.
    """
    home, _, _ = instance.partition("-")
    swept = 0
    for folder in temporary.glob(f"{PREFIX}{home}-*"):
        if not folder.name.startswith(f"{PREFIX}{instance}-") and not folder.is_symlink():
            remove_folder(folder)
            swept += 1
    return swept
