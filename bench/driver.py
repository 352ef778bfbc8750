"""What is measured, over the wire that both gateways speak: one client for both."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

PAGE = 4096
TICKS = os.sysconf("SC_CLK_TCK")


class Wire:
    """A plain JSON-RPC client."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.ids = itertools.count(1)
        self.answers: dict[str, asyncio.Future[Any]] = {}
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.reader = asyncio.ensure_future(self._read())

    @classmethod
    async def open(cls, url: str, token: str) -> Wire:
        socket = await connect(f"{url}?token={token}", max_size=None, compression=None, proxy=None)
        wire = cls(socket)
        await wire.until("gateway.ready")
        return wire

    async def _read(self) -> None:
        async for frame in self.socket:
            message = json.loads(frame)
            if "id" in message:
                self.answers.pop(message["id"]).set_result(message)
            else:
                self.events.put_nowait(message["params"])

    async def call(self, method: str, **params: Any) -> Any:
        an_id = f"b{next(self.ids)}"
        answer = self.answers[an_id] = asyncio.get_running_loop().create_future()
        await self.socket.send(
            json.dumps({"jsonrpc": "2.0", "id": an_id, "method": method, "params": params})
        )
        message = await asyncio.wait_for(answer, 60)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        return message["result"]

    async def until(self, *kinds: str) -> dict[str, Any]:
        while True:
            event = await asyncio.wait_for(self.events.get(), 60)
            if event["type"] in kinds:
                return event

    async def close(self) -> None:
        self.reader.cancel()
        await self.socket.close()


async def create(wire: Wire, **params: Any) -> tuple[str, float, float]:
    """A session; seconds to the answer and to its agent's being ready."""
    begun = time.perf_counter()
    opened = await wire.call("session.create", **params)
    answered = time.perf_counter() - begun
    # The peer says ready by its session.info event; ours may be ready with the answer already.
    if opened["info"].get("lazy", True):
        while (await wire.until("session.info"))["payload"].get("lazy"):
            pass
    return opened["session_id"], answered, time.perf_counter() - begun


async def turn(wire: Wire, session: str, text: str) -> tuple[float, float]:
    """Seconds to the first delta and to the acknowledgement."""
    begun = time.perf_counter()
    acknowledged: list[float] = []
    submitted = asyncio.ensure_future(wire.call("prompt.submit", session_id=session, text=text))
    submitted.add_done_callback(lambda _: acknowledged.append(time.perf_counter() - begun))
    await wire.until("message.delta")
    first = time.perf_counter() - begun
    await wire.until("message.complete")
    await submitted
    return first, acknowledged[0]


async def close(wire: Wire, session: str) -> float:
    begun = time.perf_counter()
    await wire.call("session.close", session_id=session)
    return time.perf_counter() - begun


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo += parents.get(found[-1], [])
    return found


def footprint(pid: int) -> dict[str, float]:
    """Resident bytes, threads, descriptors, processes and voluntary switches of a whole tree."""
    total = dict.fromkeys(("rss", "threads", "fds", "processes", "switches"), 0.0)
    for one in tree(pid):
        try:
            total["rss"] += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * PAGE
            total["fds"] += len(os.listdir(f"/proc/{one}/fd"))
            tasks = os.listdir(f"/proc/{one}/task")
            total["threads"] += len(tasks)
            total["processes"] += 1
            for task in tasks:
                status = Path(f"/proc/{one}/task/{task}/status").read_text()
                line = next(x for x in status.splitlines() if x.startswith("voluntary"))
                total["switches"] += int(line.split()[1])
        except OSError:
            continue
    return total


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
