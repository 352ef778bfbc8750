"""Spoilt answers, questions and notes of a tool server, over a real connection to it.

Every answer of ours comes after one that is spoilt. Whatever is asked gives an outcome or one of
the errors that are meant for it, in bounded time; nothing is left when the connection is closed,
and nothing goes wrong behind anybody's back.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections import deque
from pathlib import Path
from typing import Any, cast

from proof.fuzz.nonsense import mutated, spoilt
from tenure.clock import SystemClock
from tenure.errors import ProcessError, ToolError
from tenure.lifecycle.scope import Scope
from tenure.sandbox.base import Order, Sandbox
from tenure.testing.toolserver import VERSION
from tenure.toolservers.calls import Asked, Caller, Lost, Outcome
from tenure.toolservers.catalog import Offers
from tenure.toolservers.declared import Declared
from tenure.toolservers.link import Link, open_stdio
from tenure.toolservers.wire import Dispatch, ServerLog

ANSWER_S = 20.0
ASKED = 25
"""Questions over one connection."""
_TEXT = {"type": "text", "text": "words"}
_BLOB = {"uri": "fake://b", "mimeType": "image/png", "blob": "AAAA"}
_PAGE = {"uri": "fake://one", "name": "one", "description": "first\nsecond", "size": 3}
ANSWERS: dict[str, dict[str, Any]] = {
    "initialize": {
        "protocolVersion": VERSION,
        "capabilities": {"tools": {"listChanged": True}, "resources": {}, "prompts": {}},
        "serverInfo": {"name": "fake", "version": "1"},
    },
    "tools/list": {
        "tools": [
            {"name": "t", "description": "d", "inputSchema": {"type": "object", "properties": {}},
             "annotations": {"readOnlyHint": True}},
        ],
    },
    "tools/call": {
        "content": [
            _TEXT, {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "fake://one", "name": "one"},
            {"type": "resource", "resource": {"uri": "fake://one", "text": "x"}},
        ],
        "structuredContent": {"a": [1]},
        "isError": False,
    },
    "resources/list": {"resources": [_PAGE]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "fake://{x}", "name": "x"}]},
    "resources/read": {"contents": [{"uri": "fake://one", "text": "x"}, _BLOB]},
    "prompts/list": {"prompts": [{"name": "p", "arguments": [{"name": "a", "required": True}]}]},
    "prompts/get": {"messages": [{"role": "user", "content": _TEXT}]},
}  # fmt: skip
UNASKED: list[dict[str, Any]] = [
    {"method": "notifications/tools/list_changed"},
    {"method": "notifications/message", "params": {"level": "info", "data": {"a": 1}}},
    {"method": "notifications/progress",
     "params": {"progressToken": 1, "progress": 0.5, "total": 1, "message": "half"}},
    {"method": "notifications/cancelled", "params": {"requestId": 1, "reason": "r"}},
    {"id": 7, "method": "roots/list"},
    {"id": 8, "method": "ping"},
    {"id": 9, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}},
    {"id": 10, "method": "elicitation/create",
     "params": {"message": "sure?", "requestedSchema": {
         "type": "object", "properties": {"ok": {"type": "boolean"}, "n": {"type": "integer"}}}}},
]  # fmt: skip


class Spoiler:
    """A server with the face of a started command and of the place that starts it."""

    pid = 0
    returncode: int | None = None
    verdict = ""
    open_files = 0
    stderr = None
    terminal = None

    def __init__(self, rnd: random.Random, *, spoil_handshake: bool) -> None:
        self._rnd = rnd
        self._spoil_handshake = spoil_handshake
        self._said: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._over = False

    async def start(self, scope: Scope, order: Order) -> Spoiler:
        """As a sandbox."""
        scope.own(order.kind, self, lambda one: one.stop())
        return self

    @property
    def stdout(self) -> Spoiler:
        """Itself."""
        return self

    async def read(self, n: int = 65_536) -> bytes:
        """As the output of a command: at most `n` bytes."""
        while not self._said and not self._over:
            self._news.clear()
            await self._news.wait()
        if not self._said:
            return b""
        piece = self._said.popleft()
        if len(piece) > n:
            self._said.appendleft(piece[n:])
        return piece[:n]

    async def write(self, data: bytes) -> None:
        """A message of the client: what it asks for is answered, twice."""
        if self._over:
            raise ProcessError("It has ended.")
        message = json.loads(data)
        answer = ANSWERS.get(message.get("method", ""))
        if answer is None or "id" not in message:
            return
        whole = {"jsonrpc": "2.0", "id": message["id"], "result": answer}
        if self._spoil_handshake or message["method"] != "initialize":
            for _ in range(self._rnd.randrange(3)):
                self._say({"jsonrpc": "2.0", **self._rnd.choice(UNASKED)})
            self._say(whole)
        self._said.append(json.dumps(whole).encode() + b"\n")
        self._news.set()

    def _say(self, message: dict[str, Any]) -> None:
        if self._rnd.random() < 0.15:
            error = {"code": -32000, "message": "no", "data": None}
            message = {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
        spoilt_one = spoilt(self._rnd, message, self._rnd.choice([0.02, 0.1, 0.3]))
        text = json.dumps(spoilt_one).encode()
        if self._rnd.random() < 0.3:
            text = mutated(self._rnd, text)
        self._said.append(text + b"\n")

    async def wait(self) -> int:
        """Its exit."""
        return 0

    async def signal_all(self, signum: int) -> None:
        """Nothing runs."""

    async def count_left(self) -> int:
        """Nothing runs."""
        return 0

    async def stop(self) -> None:
        """It ends."""
        self._over = True
        self._news.set()


def toolserver(rnd: random.Random, count: int) -> list[str]:
    """Violations in about `count` questions."""
    found: list[str] = []
    for _ in range(max(1, count // ASKED)):
        found += asyncio.run(_connection(rnd.randrange(2**32)))
    return found


async def _connection(seed: int) -> list[str]:
    """One connection, from its beginning to its end; what went wrong."""
    rnd, found = random.Random(seed), list[str]()
    asyncio.get_running_loop().set_exception_handler(
        lambda _loop, context: found.append(f"seed {seed}: behind our back: {context}")
    )
    scope = Scope.root("fuzz", SystemClock())
    link = Link(scope, roots=(Path("/"),), elicits=True)
    spoiler = Spoiler(rnd, spoil_handshake=rnd.random() < 0.3)
    try:
        with tempfile.TemporaryDirectory(prefix="proof-") as folder:
            log = ServerLog(Path(folder) / "log")
            await open_stdio(
                scope, cast("Sandbox", spoiler), Declared(command="fake"), "fake", link, log
            )
            for _ in range(ASKED):
                found += await _problem(link, rnd, seed)
    except (ToolError, Lost):
        pass  # the handshake was spoilt, or so much that it counts as another protocol
    report = await scope.close("over")
    if report.failures or scope.census():
        found.append(f"seed {seed}: left at the end: {report.failures} {scope.census()}")
    return found


async def _problem(link: Link, rnd: random.Random, seed: int) -> list[str]:
    name = rnd.choice(["call", "offers", "resources", "resource", "prompts", "prompt"])
    try:
        async with asyncio.timeout(ANSWER_S):
            given = await _ask(link, name, rnd)
    except ToolError:
        return []
    except TimeoutError:
        return [f"seed {seed}: no answer to {name} within {ANSWER_S:.0f} s"]
    except Lost:
        raise
    except Exception as exc:  # noqa: BLE001 - that is what is looked for
        return [f"seed {seed}: {exc!r} of {name}"]
    kinds = {"call": Outcome, "offers": Offers, "resource": str, "prompt": str}
    right = isinstance(given, kinds.get(name, list))
    return [] if right else [f"seed {seed}: {name} gives {given!r}"[:300]]


async def _ask(link: Link, name: str, rnd: random.Random) -> Any:
    async def person(asked: Asked) -> str | None:
        return rnd.choice([*asked.choices, "true", "5", "words", "", None])

    if name == "call":
        caller = Caller(lambda line: None, person)
        return await link.call("t", {}, caller, Dispatch(), ANSWER_S)
    if name == "resource":
        return await link.resource("fake://one")
    if name == "prompt":
        return await link.prompt("p", {"a": "x"})
    return await getattr(link, name)()
