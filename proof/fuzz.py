"""``python -m proof fuzz``: nonsense at every door, and what must never come of it.

* wire: every method of the protocol over a real socket, with parameters made from its schema, many
  of them wrong, and frames that are no messages at all. Each gets an answer; no answer is an
  internal error; a bystander's connection goes on.
* codec: whatever bytes a frame has, the peer says what it means and raises nothing.
* config: whatever a file says, it is taken or refused in a sentence that names it.
* model: streams of the OpenAI wire, cut anywhere, split at any byte, of wrong types, huge. Each is
  an answer or a `ModelError`, in bounded time.

What violates is made smaller before it is printed. Seeded.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proof.chaos.ground import INTERNAL
from proof.real.gateway import ROOT, serving, write_script
from proof.real.wire import Lost, Refused, Wire
from tenure.config import Home, load
from tenure.errors import ConfigError, ModelError
from tenure.models.base import ModelRequest
from tenure.protocol.peer import Peer

NONSENSE: list[Any] = [
    None, True, 0, -1, 2**63, 2**70, 1.5, 1e308, "", " ", "x" * 9_000, "\0", "../../x", "/",
    [], [[]], {}, {"": None}, [None] * 50, "é" * 100, {"a": {"b": {"c": []}}},
]  # fmt: skip
ENDING = {"gateway.shutdown", "gateway.stop"}
"""Methods that do what they are for when they are called rightly, and end the run."""
ANSWER_S = 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of this command."""
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=3_000, help="inputs at each door (3000)")
    parser.add_argument("--only", choices=sorted(DOORS), default="")


def main(args: argparse.Namespace) -> int:
    """Run it; 0 if nothing is violated."""
    failed = 0
    for name in [args.only] if args.only else DOORS:
        begun, rnd = time.perf_counter(), random.Random(args.seed)
        found = DOORS[name](rnd, args.count)
        took = time.perf_counter() - begun
        print(f"{name}: {args.count} inputs, {len(found)} violations, {took:.1f} s", flush=True)
        for one in found[:10]:
            print(f"   VIOLATION {one}")
        failed += len(found)
    return bool(failed)


# --- the wire ---------------------------------------------------------------------------------


class Schema:
    """Values from the published schema of the protocol, right and wrong."""

    def __init__(self, rnd: random.Random, known: dict[str, str]) -> None:
        tree = json.loads((ROOT / "docs/protocol.schema.json").read_text())
        self._defs = tree["$defs"]
        self._rnd = rnd
        self._known = known
        self.methods: dict[str, Any] = tree["methods"]

    def params(self, method: str) -> Any:
        """Parameters for a method; most have something wrong with them."""
        value = self._value(self.methods[method]["params"], "")
        if isinstance(value, dict):
            for name in list(value):
                if self._rnd.random() < 0.15:
                    value[name] = self._rnd.choice(NONSENSE)
                elif self._rnd.random() < 0.05:
                    del value[name]
        return self._rnd.choice(NONSENSE) if self._rnd.random() < 0.03 else value

    def _value(self, schema: dict[str, Any], name: str, depth: int = 0) -> Any:
        if depth > 6 or self._rnd.random() < 0.03:
            return self._rnd.choice(NONSENSE)
        if "$ref" in schema:
            return self._value(self._defs[schema["$ref"].rpartition("/")[2]], name, depth + 1)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self._value(self._rnd.choice(schema[key]), name, depth + 1)
        if "enum" in schema:
            return self._rnd.choice(schema["enum"])
        if name in self._known and self._rnd.random() < 0.8:
            return self._known[name]
        return self._of_type(schema, depth)

    def _of_type(self, schema: dict[str, Any], depth: int) -> Any:
        kind = schema.get("type")
        if kind == "object" or "properties" in schema:
            needed = set(schema.get("required", ()))
            return {
                name: self._value(one, name, depth + 1)
                for name, one in schema.get("properties", {}).items()
                if name in needed or self._rnd.random() < 0.4
            }
        if kind == "array":
            return [self._value(schema.get("items") or {}, "", depth + 1) for _ in range(2)]
        plain: dict[str, list[Any]] = {
            "integer": [0, 1, -1, 7, 80], "number": [0.0, 0.5, -1.0, 3.0], "boolean": [True, False],
            "string": ["", "a", "words of it", "/tmp", "2026"], "null": [None],
        }  # fmt: skip
        return self._rnd.choice(plain.get(str(kind), NONSENSE))


def _wire(rnd: random.Random, count: int) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="proof-") as name:
        folder = Path(name)
        with serving(folder, write_script(folder, [{"text": "Words."}])) as gateway:
            return asyncio.run(_at_socket(rnd, count, gateway.wire))


async def _at_socket(rnd: random.Random, count: int, connect: Callable[[], Any]) -> list[str]:
    bystander, wire, found = await connect(), await connect(), list[str]()
    known: dict[str, str] = {}
    schema = Schema(rnd, known)
    for n in range(count):
        if n % 100 == 0:  # the last one may have been closed or deleted
            known["session_id"] = await bystander.create(auto_approve=True)
        try:
            if rnd.random() < 0.1:
                await wire.send(_frame(rnd))
                continue
            method = rnd.choice([m for m in schema.methods if m not in ENDING])
            params = schema.params(method)
            if problem := await _problem(wire, method, params):
                params = await _smaller(connect, method, params, problem)
                found.append(f"{problem}: {method} {json.dumps(params)[:300]}")
        except Lost:  # its own connection may be ended for nonsense, nobody else's
            await wire.close()
            wire = await connect()
    try:
        await bystander.call("gateway.info")
    except (Lost, Refused, TimeoutError) as exc:
        found.append(f"a bystander suffers: {exc!r}")
    for one in (bystander, wire):
        await one.close()
    return found


async def _problem(wire: Wire, method: str, params: Any) -> str:
    answer = asyncio.ensure_future(wire.call_with(method, params))
    done, _ = await asyncio.wait({answer}, timeout=ANSWER_S)
    if not done:
        answer.cancel()
        return f"no answer within {ANSWER_S:.0f} s"
    error = answer.exception()
    if isinstance(error, Lost):
        raise error
    return "internal error" if isinstance(error, Refused) and error.code == INTERNAL else ""


async def _smaller(connect: Callable[[], Any], method: str, params: Any, problem: str) -> Any:
    """The parameters without all that is not needed for the same problem."""
    wire: Wire = await connect()
    for name in list(params) if isinstance(params, dict) else []:
        less = {key: value for key, value in params.items() if key != name}
        if await _problem(wire, method, less) == problem:
            params = less
    await wire.close()
    return params


def _frame(rnd: random.Random) -> str | bytes:
    whole = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "gateway.info", "params": {}})
    kinds: list[str | bytes] = [
        whole[: rnd.randrange(len(whole))], whole.replace('"', "'"), "[" * 2000, "{}" * 3, "null",
        json.dumps([{"id": 1}] * 5), rnd.randbytes(40),
        '{"jsonrpc":"2.0","id":1,"method":"\\ud83d"}', '{"id":{},"method":[]}',
        json.dumps({"jsonrpc": "2.0", "id": rnd.choice(NONSENSE[:8]), "method": "no.such"}),
    ]  # fmt: skip
    return rnd.choice(kinds)


# --- the others -------------------------------------------------------------------------------


def _mutated(rnd: random.Random, whole: bytes) -> bytes:
    """A text with something cut, repeated, overwritten or inserted."""
    text = bytearray(whole)
    for _ in range(rnd.randrange(1, 4)):
        at, size = rnd.randrange(len(text) + 1), rnd.randrange(12)
        kind = rnd.randrange(4)
        if kind == 0:
            del text[at : at + size]
        elif kind == 1:
            text[at:at] = text[at : at + size]
        elif kind == 2:
            text[at : at + size] = rnd.randbytes(size)
        else:
            text[at:at] = rnd.choice(
                [b'"', b"{", b"]", b"\\u0000", b"null", b"1e999", b"\n\n", b"-"]
            )
    return bytes(text)


FRAMES = [
    b'{"jsonrpc":"2.0","id":"a","method":"session.create","params":{"cols":80,"title":"x"}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"a":[1,2.5,null]}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"m","data":{}}}',
    b'{"jsonrpc":"2.0","method":"event","params":{"type":"t","session_id":"s","payload":{}}}',
]


def _codec(rnd: random.Random, count: int) -> list[str]:
    peer, found = Peer(), []
    for _ in range(count):
        frame = _mutated(rnd, rnd.choice(FRAMES))
        try:
            peer.receive(frame)
        except Exception as exc:  # noqa: BLE001 - that is what is looked for
            found.append(f"{exc!r} of {frame!r}")
    return found


CONFIG = b"""[model]
default = "openai:stub"
[limits]
queue_max = 4
orphan_grace_s = 1.5
[server]
port = 9121
allow_hosts = ["a"]
[[approvals.rules]]
tool = "shell"
decide = "deny"
[providers.mine]
base_url = "http://localhost:1/v1"
"""


def _config(rnd: random.Random, count: int) -> list[str]:
    found = []
    with tempfile.TemporaryDirectory(prefix="proof-") as name:
        home = Home(Path(name), Path(name) / "cache")
        for _ in range(count):
            text = _mutated(rnd, CONFIG)
            home.config.write_bytes(text)
            try:
                load(home)
            except ConfigError:
                continue
            except Exception as exc:  # noqa: BLE001
                found.append(f"{exc!r} of {text!r}")
    return found


_DELTAS = [
    {"delta": {"content": "word "}, "finish_reason": None},
    {
        "delta": {
            "tool_calls": [{"index": 0, "id": "c", "function": {"name": "x", "arguments": "{"}}]
        }
    },
    {"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}},
    {"delta": {}, "finish_reason": "stop"},
]
CHUNKS = [
    *(b"data: %s\n\n" % json.dumps({"id": "x", "choices": [one]}).encode() for one in _DELTAS),
    b'data: {"usage":{"prompt_tokens":5,"completion_tokens":3},"choices":[]}\n\n',
    b": a comment\n\n",
    b"data: [DONE]\n\n",
    b'data: {"error":{"message":"no","code":500}}\n\n',
]


def _model(rnd: random.Random, count: int) -> list[str]:
    return asyncio.run(_streams(rnd, max(1, count // 10)))


async def _streams(rnd: random.Random, count: int) -> list[str]:
    from proof.real.provider import provider

    found, body = [], b""

    def answer() -> list[bytes]:
        nonlocal body
        body = b"".join(rnd.choices(CHUNKS, k=rnd.randrange(1, 6)))
        body = _mutated(rnd, body) if rnd.random() < 0.8 else body + b"data: " + b"x" * 300_000
        cuts = sorted(rnd.randrange(len(body) + 1) for _ in range(3))
        return [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]

    async with provider(answer) as model:
        for _ in range(count):
            try:
                async with (
                    asyncio.timeout(ANSWER_S),
                    model.stream(ModelRequest(system="s", messages=(), session_id="s")) as events,
                ):
                    async for _ in events:
                        pass
            except ModelError:
                continue
            except Exception as exc:  # noqa: BLE001
                found.append(f"{exc!r} of {body[:300]!r}")
    return found


DOORS: dict[str, Callable[[random.Random, int], list[str]]] = {
    "wire": _wire,
    "codec": _codec,
    "config": _config,
    "model": _model,
}
