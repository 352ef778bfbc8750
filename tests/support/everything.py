"""A gateway whose sessions hold one of everything, and what the system says of them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from support.commands import Place
from support.served import Served, load, serving
from support.toolservers import FAKE
from tenure.processes.brand import read_number
from tenure.processes.containment import LABEL
from tenure.processes.procfs import Identity, all_stats, identity_of, is_alive, read_label
from tenure.processes.watchman import NOTICE_S
from tenure.testing import waiting
from tenure.testing.gates import Gate
from tenure.testing.gateway import TestClient
from tenure.testing.model_server import Answer, ModelServer

SLEEP = f"97531{os.getpid()}"
"""Seconds that nobody else sleeps, so that what sleeps is found."""
PATIENCE_S = 120.0
PYTHON = "/usr/bin/python3"
"""A box shows the system's, not the one of these tests."""


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """An action that calls a tool."""
    return {"call": {"name": name, "arguments": arguments}}


def sleeping(word: str) -> str:
    """A command that says a word and sleeps; what it says does not stand in it."""
    return f"echo {word[:1]}''{word[1:]}; sleep {SLEEP}; echo sleptwell"


class Running(NamedTuple):
    """A process of ours, by what cannot be mistaken."""

    identity: Identity
    command: str


class Session:
    """A session of `Everything`, driven by its own script."""

    def __init__(self, world: Everything, session_id: str) -> None:
        self.world = world
        self.id = session_id
        self.taken: dict[str, int] = {}
        """How many events of each kind a test has taken."""

    async def submit(self, text: str = "use everything") -> None:
        await self.world.client.call("prompt.submit", session_id=self.id, text=text)

    async def rows(self) -> list[dict[str, Any]]:
        """What it holds."""
        entries = (await self.world.client.call("census.get"))["entries"]
        return [row for row in entries if self.id in row["owner"] or self.id in row["label"]]

    async def kinds(self) -> set[str]:
        return {row["kind"] for row in await self.rows()}

    async def pid(self, kind: str) -> int:
        """Of the one thing of that kind."""
        (pid,) = {row["pid"] for row in await self.rows() if row["kind"] == kind and "pid" in row}
        return pid

    async def processes(self) -> int:
        """How many run on its account."""
        accounts = (await self.world.client.call("census.get"))["accounts"]
        return int(accounts.get(self.id, {"processes": 0})["processes"])

    async def close(self) -> None:
        """Close it; when that is told, nothing of it runs, whatever it is known by.

        The answer may come earlier: whoever asks does not wait long for what is deaf.
        """
        numbers = {read_number(stat.pid) for stat in labelled(f"/{self.id}/")} - {0}
        await self.world.client.call("session.close", session_id=self.id)
        await self.world.next("session.closed", self)
        running = [row for row in await self.rows() if "pid" in row]
        assert running == [], running
        assert await self.processes() == 0
        left = commands(labelled(f"/{self.id}/"))
        assert left == [], left
        left = commands([s for s in all_stats() if not s.gone and read_number(s.pid) in numbers])
        assert left == [], left
        await until(self._is_free, "nothing is held for it")

    async def _is_free(self) -> bool:
        return await self.rows() == []


class Everything:
    """A gateway with a site and a tool server beside it. Made by `everything`."""

    def __init__(self, place: Place, site: ModelServer, served: Served, client: TestClient) -> None:
        self.place = place
        self.site = site
        self.served = served
        self.client = client
        instance = json.loads((place.home / "gateway.json").read_text())["instance"]
        self.instance: str = instance
        self._scripts = 0

    async def session(
        self, *steps: Any, on: tuple[dict[str, Any], ...] = (), sandbox: str = ""
    ) -> Session:
        """A session of whose turn these are the steps; its tool server is known."""
        self._scripts += 1
        ref = self.place.script(*steps, name=f"script-{self._scripts}.json", on=list(on))
        opened = await self.client.ready_session(
            auto_approve=True, cwd=str(self.place.work), model=ref, sandbox=sandbox
        )
        return Session(self, opened)

    async def agrees(self) -> None:
        """Whatever is held runs, and whatever runs is held.

        The gateway gives an end so long to be noticed; only where others run, too, it is asked again.
        """
        began = time.monotonic()
        while found := (await self.client.call("census.verify"))["differences"]:
            assert time.monotonic() - began < NOTICE_S * load(), found

    async def another_answers(self) -> None:
        """A session beside it gets its answer, and goes."""
        other = await self.session({"text": "Still here."})
        await other.submit("are you there?")
        done = await self.client.until("message.complete", other.id)
        assert done.payload["state"] == "completed", done
        assert "Still here." in json.dumps(done.payload)
        await self.client.call("session.close", session_id=other.id)

    async def next(self, kind: str, session: Session) -> dict[str, Any]:
        """The session's next event of a kind, also where others were listened to meanwhile."""
        place = session.taken.get(kind, 0)
        session.taken[kind] = place + 1
        while True:
            known = [
                event.payload
                for event in self.client.seen
                if event.type == kind and event.session_id == session.id
            ]
            if len(known) > place:
                return known[place]
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._listen(kind, session)
            except TimeoutError:
                seen = [f"{event.type} {event.payload}"[:300] for event in self.client.seen[-8:]]
                raise AssertionError(f"there is no {kind}; the last were {seen}") from None

    async def _listen(self, kind: str, session: Session) -> None:
        while True:
            with suppress(TimeoutError):  # of the client, which is shorter
                await self.client.until(kind, session.id)
                return

    async def result(self, session: Session) -> str:
        """What the session's next tool call comes to."""
        return json.dumps(await self.next("tool.complete", session))

    def all_of_it(self) -> list[Running]:
        """Every process of the gateway that bears its label or sleeps for it."""
        return [
            Running(identity, command_of(stat.pid))
            for stat in labelled(f"{self.instance}/", below=True)
            if (identity := identity_of(stat.pid)) is not None
        ]


@asynccontextmanager
async def everything(place: Place, config: str = "", web: str = "") -> AsyncIterator[Everything]:
    """A gateway in which a session can hold one of each, in boxes where there are any."""
    place.extra["TENURE_SANDBOX"] = "auto"
    async with ModelServer() as site:
        site.by_path["/"] = Answer(b"<title>Here</title><h1>Hello</h1>", content_type="text/html")
        allow = ", ".join(filter(None, [f'"127.0.0.1:{site.port}"', web]))
        text = f"[web]\nallow = [{allow}]\n[sandbox]\nnetwork = true\n{config}"
        place.config(text)
        with serving(place, "--model", place.script({"text": "Hello."})) as served:
            async with served.client() as client:
                yield Everything(place, site, served, client)


def declare(place: Place, name: str = "fake", *legs: str, **more: Any) -> Path:
    """Have the profile declare the fake server, copied to where a box sees it; its folder."""
    folder = place.work / f"server-{name}"
    folder.mkdir()
    shutil.copy(FAKE, place.work / "toolserver.py")
    path = place.home / "mcp.json"
    place.home.mkdir(mode=0o700, exist_ok=True)
    whole = json.loads(path.read_text()) if path.exists() else {"mcpServers": {}}
    args = ["-S", str(place.work / "toolserver.py"), f"--dir={folder}", *legs]
    whole["mcpServers"][name] = {"command": PYTHON, "args": args, **more}
    path.write_text(json.dumps(whole))
    return folder


def labelled(part: str, *, below: bool = False) -> list[Any]:
    """What runs with `part` in its label; with `below`, also what that has started."""
    stats = [stat for stat in all_stats() if not stat.gone]
    found = {stat.pid: stat for stat in stats if part in (read_label(stat.pid, LABEL) or "")}
    grown = below
    while grown:
        more = {s.pid: s for s in stats if s.ppid in found and s.pid not in found}
        found |= more
        grown = bool(more)
    return list(found.values())


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
    except OSError:
        return ""


def commands(stats: list[Any]) -> list[str]:
    return [f"{stat.pid} {command_of(stat.pid)}" for stat in stats]


def sleepers() -> list[int]:
    """The pids of what sleeps."""
    return [s.pid for s in all_stats() if not s.gone and command_of(s.pid) == f"sleep {SLEEP} "]


def lives(running: Running) -> bool:
    return is_alive(running.identity)


async def until(check: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
    """Wait for something that no event tells, longer than where less is held."""
    return await waiting.until(check, what, patience_s)


async def end(pid: int) -> None:
    """SIGKILL, and wait until it is gone."""
    identity = identity_of(pid)
    assert identity is not None
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not is_alive(identity), "what was killed is gone")


def hanging(site: ModelServer, path: str) -> Gate:
    """A page that does not come before its gate is opened."""
    gate = Gate()
    site.by_path[path] = Answer(gate)
    return gate
