"""Where sandboxes are tried: a working directory, two homes with secrets, real children."""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.sshd import Server
from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.processes.spawn import Spawner
from tenure.sandbox.base import Order, Running, Sandbox
from tenure.sandbox.bubblewrap import Bubblewrap, Layout
from tenure.sandbox.docker import Docker, Engine
from tenure.sandbox.local import Local
from tenure.sandbox.ssh import Place, Ssh
from tenure.settings import DockerConfig
from tenure.testing.engine import EngineDouble

needs_bwrap = pytest.mark.needs("bwrap")


class Said(NamedTuple):
    """What a command printed, and how it ended."""

    text: str
    status: int


class Rows:
    """A `Ledger` that keeps all that it was told."""

    def __init__(self) -> None:
        self.rows: dict[str, str] = {}
        self.failure: Exception | None = None

    async def begin(self, lease: str, session_id: str, epoch: int) -> None:
        if self.failure:
            raise self.failure
        self.rows[lease] = ""

    async def end(self, lease: str, reason: str) -> None:
        if self.failure:
            raise self.failure
        self.rows[lease] = self.rows.get(lease) or reason

    async def live(self) -> list[str]:
        return [lease for lease, reason in self.rows.items() if not reason]


class Ground:
    """A session's scope with a turn's below it, and a machine with things to hide.

    Attributes:
        work: the working directory.
        user: the user's home.
        home: the gateway's home.
    """

    def __init__(self, base: Path) -> None:
        self.base = base
        self.work, self.user, self.home = base / "work", base / "user", base / "user/.tenure"
        for folder in (self.work, self.user / ".ssh", self.home):
            folder.mkdir(parents=True)
        (self.user / ".ssh/id_ed25519").write_text("the user's key")
        (self.home / "token").write_text("the gateway's token")
        self.session_id = f"s{secrets.token_hex(4)}"  # the sweep looks at all of the machine
        self.rows = Rows()
        self.root = Scope.root("test", SystemClock())
        self.session = self.root.child("session")
        self.turn = self.session.child("turn")
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.user)}
        self.spawner = Spawner(instance="test", environ=environ, clock=self.root.clock)

    def local(self) -> Sandbox:
        return Local(self.spawner, self.work, "s1")

    def box(self, **layout: object) -> Bubblewrap:
        facts = Layout(self.work, self.user, self.home, self.home / "boxes")
        facts = facts._replace(**layout)
        return Bubblewrap(self.spawner, facts, "s1", self.session, "a test")

    def ssh(self, server: Server, **place: object) -> Ssh:
        facts = Place(
            "127.0.0.1", server.port, server.user, str(self.work), (server.key,),
            (server.known_hosts,), "", "", "abc-1", self.session_id,
        )._replace(**place)  # fmt: skip
        return Ssh(facts, self.session, "a test")

    def docker(self, double: EngineDouble, **more: Any) -> Docker:
        config = DockerConfig(program=str(double.path), image="an-image")
        self.engine = Engine(self.spawner, self.root.child("engine"), "home-1", "default", config)
        options = {"owner": (self.session_id, 1), "network": False, "why": "a test", **more}
        return Docker(self.engine, self.rows, self.work, self.session, **options)

    async def start(self, sandbox: Sandbox, command: str, **more: object) -> Running:
        order = Order(("/bin/bash", "-c", command))._replace(**more)
        return await sandbox.start(self.turn, order)

    async def run(self, sandbox: Sandbox, command: str, **more: object) -> Said:
        """Run a command to its end, and what it has started with it."""
        process = await self.start(sandbox, command, **more)
        text = await read_all(process)
        status = await process.wait()
        await process.stop()
        return Said(text, status)


async def read_all(process: Running) -> str:
    """Everything that it prints until its end."""
    said = b""
    async with asyncio.timeout(30):
        assert process.stdout is not None
        while piece := await process.stdout.read():
            said += piece
    return said.decode()


async def read_until(process: Running, text: str) -> str:
    """What it prints up to `text`."""
    said = b""
    async with asyncio.timeout(30):
        assert process.stdout is not None
        while text.encode() not in said:
            piece = await process.stdout.read()
            assert piece, f"it ended after {said!r}"
            said += piece
    return said.decode()
