"""Where a scenario runs: connections, what was promised, and what was answered wrongly."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from proof.real.wire import Lost, Refused

INTERNAL = -32603


class Connection(Protocol):
    """A client's connection, over a socket or within the process."""

    events: dict[str, list[dict[str, Any]]]

    async def call(self, method: str, **params: Any) -> Any: ...
    async def until(self, kind: str, session: str, count: int = 1) -> list[dict[str, Any]]: ...
    def abort(self) -> None: ...
    async def close(self) -> None: ...


class Ground:
    """One run of a scenario.

    Attributes:
        accepted: the turns that were acknowledged, by session.
        taken_back: of these, those that an undo may have taken out again.
        clocked_s: how long the part between `begin_clock` and `end_clock` has taken.
        wrong: what must never happen, in sentences.
        refused: how often something was refused, by code; every code but the internal one is fine.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]], seed: int) -> None:
        self._connect = connect
        self._open: set[Connection] = set()
        self.rnd = random.Random(seed)
        self.accepted: dict[str, set[str]] = defaultdict(set)
        self.taken_back: dict[str, set[str]] = defaultdict(set)
        self.wrong: list[str] = []
        self.refused: dict[int, int] = defaultdict(int)
        self.clocked_s = 0.0

    def begin_clock(self) -> None:
        """What is measured begins."""
        self.clocked_s = -time.perf_counter()

    def end_clock(self) -> None:
        """It is over."""
        self.clocked_s += time.perf_counter()

    async def connect(self) -> Connection:
        """One more connection; closed at the end at the latest."""
        wire = await self._connect()
        self._open.add(wire)
        return wire

    def drop(self, wire: Connection) -> None:
        """Cut a connection without a word."""
        self._open.discard(wire)
        wire.abort()

    async def leave(self, wire: Connection) -> None:
        """Close one in order."""
        self._open.discard(wire)
        await wire.close()

    async def aclose(self) -> None:
        """Close what is open."""
        while self._open:
            await self._open.pop().close()

    async def ask(self, wire: Connection, method: str, **params: Any) -> Any:
        """Ask; None if it was refused or the connection was lost, which chaos may bring about."""
        try:
            return await wire.call(method, **params)
        except Refused as exc:
            self.refused[exc.code] += 1
            if exc.code == INTERNAL:
                self.wrong.append(f"internal error: {exc}")
        except Lost:
            pass
        except TimeoutError:
            self.wrong.append(f"no answer: {method} {params}")
        return None

    async def submit(self, wire: Connection, session: str, text: str = "go", **more: Any) -> Any:
        """A prompt; an acknowledged one must have exactly one end."""
        receipt = await self.ask(wire, "prompt.submit", session_id=session, text=text, **more)
        if receipt is not None:
            self.accepted[session].add(receipt["turn_id"])
        return receipt

    async def create(self, wire: Connection, count: int, **params: Any) -> list[str]:
        """So many sessions."""
        params = {"auto_approve": True, **params}
        opened = [await wire.call("session.create", **params) for _ in range(count)]
        return [one["session_id"] for one in opened]


async def together(work: Iterable[Awaitable[Any]]) -> list[Any]:
    """All at once; the results in order."""

    async def one(awaitable: Awaitable[Any]) -> Any:
        return await awaitable

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(each)) for each in work]
    return [task.result() for task in tasks]
