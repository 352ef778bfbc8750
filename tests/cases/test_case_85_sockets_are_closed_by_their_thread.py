"""Case 85: a socket is closed by the thread that made it, so its number is nobody else's by mistake."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import threading
from pathlib import Path
from typing import Self

import pytest

from tenure.conversation import Message
from tenure.models.base import ModelRequest
from tenure.models.openai import Endpoint, open_provider
from tenure.testing.gates import Gate
from tenure.testing.model_server import Answer, ModelServer, chunk

INTERRUPTS = 500
ASK = ModelRequest("Be brief.", (Message("user", "hi"),), ())
MAGIC = b"SQLite format 3\0"


class Watched:
    """Who has made which socket, and what was closed by somebody else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: dict[int, int] = {}
        self.closed = 0
        self.wrong: list[str] = []
        init, close, detach = (
            socket.socket.__init__,
            socket.socket._real_close,
            socket.socket.detach,
        )
        real = os.close

        def made(one: socket.socket, *args: object, **more: object) -> None:
            init(one, *args, **more)
            self.made[one.fileno()] = threading.get_ident()

        def closed(one: socket.socket, *args: object) -> None:
            self._gone(one.fileno(), "closed")
            close(one, *args)

        def detached(one: socket.socket) -> int:
            self.made.pop(one.fileno(), None)
            return detach(one)

        def raw(fd: int) -> None:
            if fd in self.made:
                self.wrong.append(f"{fd} was closed by its number")
            real(fd)

        monkeypatch.setattr(socket.socket, "__init__", made)
        monkeypatch.setattr(socket.socket, "_real_close", closed)
        monkeypatch.setattr(socket.socket, "detach", detached)
        monkeypatch.setattr(os, "close", raw)

    def _gone(self, fd: int, how: str) -> None:
        maker = self.made.pop(fd, None)
        if maker is not None:
            self.closed += 1
            if maker != threading.get_ident():
                self.wrong.append(f"{fd} was {how} by another thread")


class Databases:
    """A thread that makes, fills and closes databases, whose numbers are those just given free."""

    def __init__(self, folder: Path) -> None:
        self.made = 0
        self.torn: list[Path] = []
        self._folder = folder
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            path = self._folder / f"{self.made}.db"
            db = sqlite3.connect(path, isolation_level=None)
            db.execute("PRAGMA synchronous=OFF")
            db.execute("CREATE TABLE t (a)")
            db.execute("INSERT INTO t VALUES (1)")
            whole = db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            db.close()
            if not whole or path.read_bytes()[:16] != MAGIC:
                self.torn.append(path)
            path.unlink()
            self.made += 1


@pytest.mark.slow
async def test_five_hundred_interrupts_beside_databases(root, tmp_path, monkeypatch):
    async with ModelServer() as server:
        watched = Watched(monkeypatch)
        provider = await open_provider(
            Endpoint("test", server.base_url), scope=root, clock=root.clock, environ={}
        )
        model = provider.model("m")

        async def ask(first: asyncio.Event) -> None:
            async with model.stream(ASK) as events:
                async for _ in events:
                    first.set()

        with Databases(tmp_path) as databases:
            for _ in range(INTERRUPTS):
                server.fallback = Answer(chunk(role="assistant"), chunk(content="a"), Gate())
                first = asyncio.Event()
                asked = asyncio.ensure_future(ask(first))
                async with asyncio.timeout(30):
                    await first.wait()
                asked.cancel()
                await asyncio.wait({asked})
                assert asked.cancelled()
        await provider.aclose()
        async with asyncio.timeout(30):
            while server.connections:
                await asyncio.sleep(0.002)
    assert watched.wrong == []
    assert watched.closed >= INTERRUPTS
    assert databases.made > 20
    assert databases.torn == []
