"""Every method of the protocol over a real socket, and frames that are no messages at all.

Parameters are made from the published schema, most of them with something wrong. Each call gets an
answer, none is an internal error, and a bystander's connection goes on.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proof.chaos.ground import INTERNAL
from proof.fuzz.nonsense import NONSENSE
from proof.real.gateway import ROOT, serving, write_script
from proof.real.wire import Lost, Refused, Wire

ENDING = {"gateway.shutdown", "gateway.stop"}
"""Methods that do what they are for when they are called rightly, and end the run."""
ANSWER_S = 20.0


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


def wire(rnd: random.Random, count: int) -> list[str]:
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
