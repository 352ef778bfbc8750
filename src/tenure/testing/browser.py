"""A browser without a browser: pages that a test writes down, behind the real one's seam."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenure.browser.found import Found
from tenure.browser.protocol import ACTING, Action, Outcome, Rules
from tenure.errors import BrowserGone, ToolError
from tenure.net.addresses import AddressRules, is_address
from tenure.net.urls import host_of, parse_url
from tenure.settings import BrowserConfig
from tenure.testing.gates import Gate


class FakePage:
    """A page.

    Args:
        title: of it.
        links: by their text: where they lead, or a file that they offer.
        fields: names of text fields.
        choices: by the name of a list: what can be chosen.
        counts: the title tells a context that was here before from a new one.
        gate: holds the loading of the page.
    """

    def __init__(
        self,
        title: str,
        *,
        links: Mapping[str, str | bytes] | None = None,
        fields: tuple[str, ...] = (),
        choices: Mapping[str, tuple[str, ...]] | None = None,
        counts: bool = False,
        gate: Gate | None = None,
    ) -> None:
        self.title = title
        self.links = dict(links or {})
        self.fields = fields
        self.choices = dict(choices or {})
        self.counts = counts
        self.gate = gate


class _Pages:
    """One context."""

    def __init__(self, rules: Rules) -> None:
        self.rules = AddressRules(rules.allow)
        self.past: list[str] = []
        self.hosts: set[str] = set()
        self.seen: set[str] = set()
        self.title = ""
        self.values: dict[str, str] = {}


class FakeBrowser:
    """A `Browser` of `FakePage`s.

    Args:
        site: pages by URL.
        folder: where files go.

    Attributes:
        contexts: names of the open ones.
        log: what was done, in order, as "context verb".
        gates: hold the opening or closing of contexts, by "open" and "close".
    """

    def __init__(self, site: Mapping[str, FakePage], folder: Path) -> None:
        self.gone = ""
        self.site = {str(parse_url(url)): page for url, page in site.items()}
        self.gates: dict[str, Gate] = {}
        self.log: list[str] = []
        self._folder = folder
        self._files = 0
        self._open: dict[str, _Pages] = {}
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def contexts(self) -> list[str]:
        """See the class."""
        return list(self._open)

    async def wait_gone(self) -> str:
        """See `Browser`."""
        return await asyncio.shield(self._ended)

    async def open(self, context: str, rules: Rules) -> None:
        """See `Browser`."""
        await self._hold("open")
        self._check()
        self._open[context] = _Pages(rules)

    async def act(self, context: str, action: Action) -> Outcome:
        """See `Browser`."""
        self._check()
        pages = self._open.get(context)
        if pages is None:
            raise ToolError("The browser does not know these pages any more.")
        self.log.append(f"{context} {action.verb}")
        if action.verb == "navigate":
            return await self._go(pages, str(parse_url(action.url)), opened=True)
        if not pages.past:
            raise ToolError("No page is open; navigate first.")
        host = host_of(pages.past[-1])
        if action.verb in ACTING and host not in pages.hosts:
            raise ToolError(f"The page is on {host} now, which was not opened by its URL.")
        return await self._do(pages, action)

    async def close(self, context: str) -> None:
        """See `Browser`."""
        await self._hold("close")
        self._open.pop(context, None)

    def kill(self, why: str = "it crashed, or somebody ended it") -> None:
        """See `Browser`; also what a test calls for a crash."""
        if not self.gone:
            self.gone = why
            self._open.clear()
            self._ended.set_result(why)

    async def _hold(self, step: str) -> None:
        if step in self.gates:
            await self.gates[step].park()

    def _check(self) -> None:
        if self.gone:
            raise BrowserGone(f"The browser has ended: {self.gone}.")

    async def _go(self, pages: _Pages, url: str, *, opened: bool = False) -> Outcome:
        there = parse_url(url)
        if is_address(there.host):
            pages.rules.check(there.host, there.host, there.port)
        if opened:
            pages.hosts.add(there.host)
        page = self.site.get(url)
        if page is None:
            raise ToolError(f"{url}: it cannot be loaded.")
        if page.gate is not None:
            await self._until_gone(page.gate)
        again = page.counts and url in pages.seen
        pages.seen.add(url)
        pages.past.append(url)
        pages.title = f"{page.title} again" if again else page.title
        pages.values = {}
        return self._seen(pages)

    async def _until_gone(self, gate: Gate) -> None:
        """Wait at the gate, or for the end of the browser."""
        parked: asyncio.Future[None] = asyncio.get_running_loop().create_task(gate.park())
        ended: asyncio.Future[Any] = self._ended
        try:
            await asyncio.wait([parked, ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            parked.cancel()
            await asyncio.wait({parked})
        if self.gone:
            raise BrowserGone(f"The browser has ended ({self.gone}); the outcome is unknown.")

    async def _do(self, pages: _Pages, action: Action) -> Outcome:
        url = pages.past[-1]
        if action.verb in {"screenshot", "pdf"}:
            return self._file(b"picture", f"{action.verb}.bin", url)
        if action.verb == "back":
            pages.past = pages.past[:-1] or pages.past
        elif action.verb in ACTING - {"press"}:
            kind, name = self._element(pages, action.ref)
            page = self.site[url]
            if kind == "link":
                target = page.links[name]
                if isinstance(target, bytes):
                    return self._file(target, name, url)
                return await self._go(pages, str(parse_url(target, parse_url(url))))
            pages.values[name] = action.text
        elif action.verb in {"tabs", "console", "network"}:
            return Outcome(f"1: {url}", url)
        return self._seen(pages)

    def _elements(self, pages: _Pages) -> list[tuple[str, str]]:
        page = self.site[pages.past[-1]]
        links = [("link", name) for name in page.links]
        fields = [("textbox", name) for name in page.fields]
        return [*links, *fields, *(("combobox", name) for name in page.choices)]

    def _element(self, pages: _Pages, ref: str) -> tuple[str, str]:
        elements = self._elements(pages)
        number = int(ref[1:]) if ref[:1] == "e" and ref[1:].isdigit() else 0
        if not 0 < number <= len(elements):
            raise ToolError(f"There is no {ref} in the latest snapshot; take another.")
        return elements[number - 1]

    def _seen(self, pages: _Pages) -> Outcome:
        url = pages.past[-1]
        rows = [
            f'- {kind} "{name}" [ref=e{n}]: {pages.values.get(name, "")}'.rstrip(": ")
            for n, (kind, name) in enumerate(self._elements(pages), 1)
        ]
        return Outcome("\n".join([f"[{url}; what follows]", pages.title, "- page", *rows]), url)

    def _file(self, content: bytes, name: str, url: str) -> Outcome:
        self._files += 1
        file = self._folder / f"file-{self._files}"
        file.write_bytes(content)
        return Outcome("A file", url, str(file), name)


def found_for_tests(config: BrowserConfig) -> Found:
    """There is a browser, unless it is switched off."""
    return Found("fake" if config.enabled else "", "" if config.enabled else "It is off.")
