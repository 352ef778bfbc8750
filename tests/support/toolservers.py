"""Sessions with tool servers that are real children, which a test can see and count."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tenure.clock import Clock, SystemClock
from tenure.lifecycle.scope import Scope
from tenure.processes.spawn import Spawner
from tenure.sandbox.choice import LocalOnly
from tenure.sandbox.local import Local
from tenure.settings import WebConfig
from tenure.testing import toolserver
from tenure.testing.waiting import until
from tenure.tools.base import NOBODY, Person, ToolContext
from tenure.toolservers.held import SessionServers
from tenure.toolservers.lending import Folders, ToolServers
from tenure.toolservers.remote import LOGINS, Network

FAKE = str(Path(toolserver.__file__))


def fake(folder: Path, *legs: str, **more: Any) -> dict[str, Any]:
    """The fake server, as a file declares it."""
    folder.mkdir(parents=True, exist_ok=True)
    return {"command": sys.executable, "args": ["-S", FAKE, f"--dir={folder}", *legs], **more}


def lines(folder: Path, name: str) -> list[str]:
    """What the fake server has noted."""
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []


def alive(folder: Path) -> list[int]:
    """The pids of its starts that still run."""
    return [pid for pid in map(int, lines(folder, "starts")) if running(pid)]


def running(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Rig:
    """A profile's tool servers, and sessions."""

    def __init__(self, root: Scope, folder: Path) -> None:
        self.root = root
        self.folder = folder
        self.clock: Clock = root.clock
        self.spawner = Spawner(
            instance=f"rig{secrets.token_hex(4)}-0",  # nobody else sweeps it
            environ={"PATH": os.environ["PATH"], "SECRET_OF_OURS": "secret"},
            clock=root.clock,
        )
        self.web = WebConfig()
        self.secrets: list[str] = []
        self.told: list[str] = []
        folders = Folders(folder / "home", folder / "cache", folder / "logs")
        folders.home.mkdir(exist_ok=True)
        self.home = ToolServers(
            root,
            folders,
            LocalOnly(self.spawner),
            Network({}, folders.home / LOGINS, lambda: self.web),
            know=self.secrets.append,
            output_bytes=lambda: 30_000,
        )
        self._sessions: dict[str, tuple[Scope, SessionServers]] = {}

    def declare(self, **servers: Any) -> None:
        """Write the profile's file."""
        path = self.folder / "home" / "mcp.json"
        path.write_text(json.dumps({"mcpServers": servers}))
        self.home._looked().clear()  # nobody else writes it in the turn of the loop that has seen it

    def session(self, name: str = "s", cwd: Path | None = None) -> SessionServers:
        """A session's; looked at once."""
        if name not in self._sessions:
            scope = self.root.child(f"session:{name}")
            where = cwd or self.folder / "work"
            where.mkdir(exist_ok=True)
            held = SessionServers(
                scope, self.home, where, Local(self.spawner, where, name),
                lambda: self.told.append(name),
            )  # fmt: skip
            self._sessions[name] = scope, held
        held = self._sessions[name][1]
        held.look()
        return held

    def row(self, server: str, name: str = "s") -> dict[str, Any]:
        """What is shown of a server."""
        (found,) = (row for row in self._sessions[name][1].rows() if row["name"] == server)
        return found

    def scope(self, name: str = "s") -> Scope:
        """A session's scope."""
        return self._sessions[name][0]

    async def listed(self, name: str = "s") -> SessionServers:
        """A session all of whose lists are known."""
        held = self.session(name)

        async def known() -> bool:
            places = held._places.values()
            return all(place.offers is not None for place in places)

        await until(known)
        return held

    def context(self, name: str = "s", *, person: Person = NOBODY, **more: Any) -> ToolContext:
        """The context of a call."""
        scope = self.scope(name)
        self.output: list[str] = []
        return ToolContext(
            session_id=name, turn_id="t", call_id="c", cwd=self.folder, scope=scope,
            session=scope, spawner=self.spawner, clock=self.clock, spill_dir=self.folder,
            output=self.output.append, state={}, person=person, **more,
        )  # fmt: skip

    async def call(
        self, tool: str, /, session: str = "s", person: Person = NOBODY, **args: Any
    ) -> Any:
        """Call a tool of a session by its public name."""
        held = self._sessions[session][1]
        found = {one.name: one for one in (*held._everything(), *held.tools())}
        context = self.context(session, person=person)
        return await found[tool].call(json.dumps(args), context)

    async def close(self, name: str = "s") -> Any:
        """End a session."""
        scope, _ = self._sessions.pop(name)
        return await scope.close("closed")

    def held(self, part: str = "") -> list[str]:
        """What is held below paths that contain `part`."""
        return [
            f"{e.kind} {e.label}".strip()
            for e in self.root.census() if part in e.owner and e.kind != "thread"
        ]  # fmt: skip


@asynccontextmanager
async def open_rig(folder: Path, clock: Clock | None = None) -> AsyncIterator[Rig]:
    """A rig, ended on leaving."""
    root = Scope.root("gateway", clock or SystemClock())
    try:
        yield Rig(root, folder)
    finally:
        await root.close()
