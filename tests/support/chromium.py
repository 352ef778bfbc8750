"""Sessions with the real browser, and what the system knows of it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from tenure.browser.lending import system_browsers
from tenure.browser.protocol import Action, Outcome, Rules
from tenure.browser.visit import Visits
from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.processes.containment import LABEL
from tenure.processes.procfs import all_stats, read_label, with_descendants
from tenure.processes.spawn import Spawner
from tenure.settings import BrowserConfig
from tenure.testing.gates import Gate
from tenure.testing.model_server import Answer, ModelServer
from tenure.testing.waiting import PATIENCE_S, until

INSTANCE = f"abcdef0-{os.getpid():08x}"


class World:
    """A gateway's browsers and its sessions, without the gateway."""

    def __init__(self, server: ModelServer, folder: Path, **config: Any) -> None:
        self.server = server
        self.folder = folder
        self.config = BrowserConfig(**config)
        self.root = Scope.root("world", SystemClock())
        environ = {**os.environ, "TMPDIR": str(folder)}
        spawner = Spawner(instance=INSTANCE, environ=environ, clock=self.root.clock)
        self.browsers = system_browsers(self.root.child("browsers"), spawner, environ, INSTANCE)
        self.sessions: dict[str, tuple[Scope, dict[str, Any]]] = {}

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.server.port}{path}"

    def page(self, path: str, html: str | bytes, **headers: str) -> None:
        """Serve a page."""
        raw = html if isinstance(html, bytes) else html.encode()
        self.server.by_path[path] = Answer(raw, content_type="text/html", headers=headers)

    async def act(
        self, verb: Any, name: str = "s", rules: dict[str, Any] | None = None, **more: Any
    ) -> Outcome:
        """One action of a session."""
        if name not in self.sessions:
            self.sessions[name] = self.root.child(name), {}
        scope, state = self.sessions[name]
        visits = Visits.of(state, scope, name, self.browsers)
        allow = (f"127.0.0.1:{self.server.port}",)
        wanted = Rules(**{"allow": allow, **(rules or {})})
        return await visits.act(Action(verb, **more), self.config, wanted)

    async def open(self, path: str = "/", name: str = "s", **more: Any) -> str:
        """Navigate; what is shown."""
        return (await self.act("navigate", name, url=self.url(path), **more)).text

    async def ref(self, words: str, name: str = "s") -> str:
        """The element in whose line of the snapshot `words` stand."""
        text = (await self.act("snapshot", name)).text
        line = next(line for line in text.splitlines() if words in line)
        return line.partition("[ref=")[2].partition("]")[0]

    async def title(self, wanted: str, name: str = "s") -> str:
        """Look until the title is there: scripts take their time."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                text = (await self.act("snapshot", name)).text
                title = text.splitlines()[1]
                if title.startswith(wanted):
                    return title
                await asyncio.sleep(0.05)

    async def close(self, name: str = "s") -> None:
        """End a session."""
        scope, _ = self.sessions.pop(name)
        await scope.close("closed")

    async def aclose(self) -> None:
        """End everything: whoever borrows first."""
        for name in list(self.sessions):
            await self.close(name)
        await self.root.close()

    async def until(self, condition: Any) -> None:
        """Wait for something that happens outside."""
        await until(condition)


async def parked(gate: Gate) -> None:
    """Wait until somebody waits at the gate; a browser may have to start first."""
    async with asyncio.timeout(PATIENCE_S):
        while not gate.parked:
            await asyncio.sleep(0.01)


def processes(part: str = "") -> list[int]:
    """What runs of the browser: with our label or below it, and with `part` in the command line.

    Chromium's renderers write over their environment, and with it the label.
    """
    found = []
    stats = all_stats()
    labelled = [s for s in stats if (read_label(s.pid, LABEL) or "").startswith(f"{INSTANCE}/")]
    for stat in with_descendants(labelled, stats):
        if stat.gone:
            continue
        try:
            command = Path(f"/proc/{stat.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if part in command:
            found.append(stat.pid)
    return found


def main_process() -> int:
    """Chromium's own: the one that is no helper of another."""
    return max(main_processes())  # a wrapper may stand before it


def main_processes() -> list[int]:
    """Chromium's own process, and a script before it that has started it."""
    found = []
    for pid in processes("--remote-debugging-pipe"):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"--type=" not in command:
            found.append(pid)
    return found


def end(pid: int) -> None:
    """SIGKILL."""
    os.kill(pid, signal.SIGKILL)
