"""What a round of the soak does: sessions of every kind at one time, and faults among them."""

from __future__ import annotations

import asyncio
import base64
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from proof.chaos.ground import Ground
from proof.chaos.oracles import ENDS
from proof.real.gateway import Gateway
from proof.real.wire import Lost, Wire
from tenure.testing import toolserver

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PATIENCE_S = 20.0
SLOW_S = 1.0
"""How long a slow consumer reads nothing."""


def _call(name: str, **arguments: Any) -> list[dict[str, Any]]:
    return [{"call": {"name": name, "arguments": arguments}}]


ANSWERS: dict[str, list[dict[str, Any]]] = {
    "do-talk": [{"reasoning": "hm"}, {"pace_s": 0.005}, {"text": "some words, one by one"}],
    "do-shell": _call("shell", command="echo hi; sleep 0.1 & (setsid sleep 60 &); ls"),
    "do-write": _call("write", path="a.txt", content="words\n" * 50),
    "do-read": _call("read", path="a.txt"),
    "do-background": _call("background", action="start", command="sleep 600"),
    "do-terminal": _call("terminal", action="open", command="cat"),
    "do-delegate": _call("delegate", tasks=[{"goal": "sub-talk one"}, {"goal": "sub-talk two"}]),
    "do-server": _call("mcp__fake__echo", text="hello"),
    "do-memory": _call("memory", action="add", text="a fact"),
    "do-todo": _call("todo", items=[{"text": "one", "status": "pending"}]),
    "do-search": _call("search", pattern="words"),
    "do-ask": _call("clarify", question="Which one?", choices=["a", "b"]),
    "do-browse": _call("browser", action="navigate", url="data:text/html,<h1>hello</h1>"),
    "do-garbage": [{"text": "Part "}, {"error": {"kind": "garbage", "message": "nonsense"}}],
    "do-overload": [{"error": {"kind": "overloaded", "message": "later", "retry_after_s": 0.05}}],
    "do-nonsense": [{"call": {"name": "shell", "arguments": "no json {"}}],
    "do-nothing": [{"call": {"name": "there_is_none", "arguments": {}}}],
    "do-flood": [{"deltas": ["x" * 2000] * 200}],
    "sub-talk": [{"text": "Looked."}],
}  # fmt: skip


def script() -> list[dict[str, Any]]:
    """The answers of the model, by what was asked last."""
    return [{"match": word, "step": step} for word, step in ANSWERS.items()]


def declared() -> dict[str, Any]:
    """The tool server, as a file declares it."""
    return {"command": sys.executable, "args": ["-S", str(Path(toolserver.__file__))]}


def _ended(wire: Wire, session: str) -> set[str]:
    return {
        str(event["payload"].get("turn_id"))
        for event in wire.events[session]
        if event["type"] in ENDS
    }


class Churn:
    """Rounds of sessions. Each returns when its sessions have been closed."""

    def __init__(self, gateway: Gateway, ground: Ground, *, browser: bool) -> None:
        self._gateway = gateway
        self._ground = ground
        self._rnd: random.Random = ground.rnd
        self._words = [w for w in ANSWERS if w.startswith("do-") and (browser or w != "do-browse")]
        self.done: Counter[str] = Counter()
        """How often each thing was done."""

    async def round(self, sessions: int, at_once: int) -> None:
        """So many sessions, some at one time, while children are killed now and then."""
        numbers = iter(range(sessions))

        async def some() -> None:
            for _ in numbers:
                with suppress(Lost):
                    await self._session()

        async with asyncio.TaskGroup() as group:
            killer = group.create_task(self._kill())
            workers = [group.create_task(some()) for _ in range(at_once)]
            await asyncio.wait(workers)
            killer.cancel()

    async def _session(self) -> None:
        ground, wire = self._ground, await self._ground.connect()
        assert isinstance(wire, Wire)
        closes = self._rnd.random() < 0.3
        session = (await ground.create(wire, 1, close_on_disconnect=closes))[0]
        for _ in range(self._rnd.randrange(1, 5)):
            wire = await self._step(wire, session)
        if self._rnd.random() < 0.1:
            ground.drop(wire)  # nobody closes it but the end of the round
            return
        method = "session.delete" if self._rnd.random() < 0.2 else "session.close"
        if method == "session.delete":
            ground.taken_back[session] |= ground.accepted[session]
        await ground.ask(wire, method, session_id=session)
        await ground.leave(wire)

    async def _step(self, wire: Wire, session: str) -> Wire:
        kinds: list[Callable[[Wire, str], Awaitable[Any]]] = [
            self._prompt, self._prompt, self._prompt, self._upload, self._terminal, self._rewrite,
            self._queue, self._slow, self._nonsense,
        ]  # fmt: skip
        if self._rnd.random() < 0.15:
            self.done["drop and resume"] += 1
            self._ground.drop(wire)
            again = await self._ground.connect()
            assert isinstance(again, Wire)
            await self._ground.ask(again, "session.resume", session_id=session, auto_approve=True)
            return again
        kind = self._rnd.choice(kinds)
        self.done[kind.__name__.strip("_")] += 1
        await kind(wire, session)
        return wire

    async def _prompt(self, wire: Wire, session: str) -> None:
        word = self._rnd.choice(self._words)
        self.done[word] += 1
        receipt = await self._ground.submit(wire, session, word)
        if receipt is None:
            return
        turn = receipt["turn_id"]
        if word == "do-ask":  # nobody answers; it may have waited behind another that was ended
            while not wire.lost and turn not in _ended(wire, session):
                await asyncio.sleep(0.1)
                await self._ground.ask(wire, "session.interrupt", session_id=session)
        elif self._rnd.random() < 0.1:
            await asyncio.sleep(0.05)
            await self._ground.ask(wire, "session.interrupt", session_id=session)
        await self._end_of(wire, session, turn)

    async def _end_of(self, wire: Wire, session: str, turn: str) -> None:
        """Wait until a prompt has ended, by itself or in the turn that it was steered into."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not wire.lost and turn not in _ended(wire, session):
                    await wire.next()
        except TimeoutError:
            kinds = [event["type"] for event in wire.events[session]][-8:]
            self._ground.wrong.append(f"{turn} of {session} does not end; the last events: {kinds}")

    async def _upload(self, wire: Wire, session: str) -> None:
        ask, content = self._ground.ask, base64.b64encode(PNG).decode()
        await ask(
            wire, "image.attach_bytes", session_id=session, filename="a.png", content_base64=content
        )

    async def _terminal(self, wire: Wire, session: str) -> None:
        ask = self._ground.ask
        row = await ask(wire, "terminal.open", session_id=session, command="cat")
        if row is not None:
            typed = {"terminal_id": row["terminal_id"], "text": "hi\n"}
            await ask(wire, "terminal.write", session_id=session, **typed)

    async def _rewrite(self, wire: Wire, session: str) -> None:
        ask = self._ground.ask
        receipt = await self._ground.submit(wire, session, "do-write")
        if receipt is None:
            return
        await self._end_of(wire, session, receipt["turn_id"])
        await ask(wire, "checkpoint.list", session_id=session)
        branched = await ask(wire, "session.branch", session_id=session)
        if branched is not None:
            await ask(wire, "session.close", session_id=branched["session_id"])
        await ask(wire, "session.undo", session_id=session, files=True)
        self._ground.taken_back[session] |= self._ground.accepted[session]
        await ask(wire, "session.compress", session_id=session)

    async def _queue(self, wire: Wire, session: str) -> None:
        for busy in ("queue", "steer", "queue", "interrupt"):
            await self._ground.submit(wire, session, "do-talk", when_busy=busy)

    async def _slow(self, wire: Wire, session: str) -> None:
        """A consumer that reads nothing for a while."""
        wire.pause()
        with suppress(Lost):
            flood = {"session_id": session, "text": "do-flood"}
            await wire.send(
                {"jsonrpc": "2.0", "id": "slow", "method": "prompt.submit", "params": flood}
            )
        await asyncio.sleep(SLOW_S)
        wire.resume()
        # Whoever was too slow has been told so and hears no more, until it comes again.
        await self._ground.ask(wire, "session.resume", session_id=session, auto_approve=True)

    async def _nonsense(self, wire: Wire, session: str) -> None:
        del session
        for frame in ("{", "[]", '{"jsonrpc":"2.0","id":1}', '{"method":5}', b"\xff\xfe"):
            with suppress(Lost):
                await wire.send(frame)

    async def _kill(self) -> None:
        """SIGKILL for a child of the gateway, now and then, whatever it is."""
        while True:
            await asyncio.sleep(0.5 + self._rnd.random())
            children = self._gateway.children()
            if children:
                self.done["child killed"] += 1
                with suppress(ProcessLookupError):
                    os.kill(self._rnd.choice(children), signal.SIGKILL)
