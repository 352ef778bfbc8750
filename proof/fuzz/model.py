"""Streams of the OpenAI wire, cut anywhere, split at any byte, of wrong types, huge.

Each is an answer or a `ModelError`, in bounded time.
"""

from __future__ import annotations

import asyncio
import json
import random

from proof.fuzz.nonsense import mutated, split
from proof.real.provider import provider
from tenure.errors import ModelError
from tenure.models.base import ModelRequest

ANSWER_S = 20.0
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


def model(rnd: random.Random, count: int) -> list[str]:
    return asyncio.run(_streams(rnd, max(1, count // 10)))


async def _streams(rnd: random.Random, count: int) -> list[str]:
    found, body = [], b""

    def answer() -> list[bytes]:
        nonlocal body
        body = b"".join(rnd.choices(CHUNKS, k=rnd.randrange(1, 6)))
        body = mutated(rnd, body) if rnd.random() < 0.8 else body + b"data: " + b"x" * 300_000
        return split(rnd, body)

    async with provider(answer) as stub:
        for _ in range(count):
            try:
                async with (
                    asyncio.timeout(ANSWER_S),
                    stub.stream(ModelRequest(system="s", messages=(), session_id="s")) as events,
                ):
                    async for _ in events:
                        pass
            except ModelError:
                continue
            except Exception as exc:  # noqa: BLE001
                found.append(f"{exc!r} of {body[:300]!r}")
    return found
