"""What the starter model may write, and what its grammar is made from.

* Whatever is written, and however it is cut, the same events come of it: nothing of the prose is
  lost, a call is one of an offered tool with an object of arguments, and nothing follows a call.
* Whatever schema a tool server gives a tool, the engine can make a grammar of it.
"""

from __future__ import annotations

import json
import random
from typing import Any

from llguidance import LLMatcher

from proof.fuzz.nonsense import mutated, spoilt
from tenure.conversation import Message, ToolSpec
from tenure.models.base import ModelEvent, ModelRequest, TextDelta, ToolCallReady, ToolCallStarted
from tenure.models.starter.prompt import call_text, request_body
from tenure.models.starter.reader import CallReader
from tenure.toolservers.described import bounded

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "of the file"},
        "how": {"enum": ["a", "b"], "default": "a"},
        "lines": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "more": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/one"}]},
    },
    "required": ["path"],
    "$defs": {"one": {"type": "object", "properties": {"x": {"type": "number"}}}},
}
TOOLS = (ToolSpec("shell", "Runs. It", SCHEMA), ToolSpec("écrire", "", {"type": "object"}))
NAMES = {tool.name for tool in TOOLS}
PIECES = [
    "```json\n", "```json", "``", "`", "\n```", "```", "```python\nprint()\n```", "\n", " ",
    "Words. ",
    call_text("shell", '{"path":"a"}'), call_text("écrire", "{}"), call_text("other", "{}"),
    call_text("shell", '"text"'), '{"name":"shell","arguments":{"path":"```json"}}', "é",
    '{"name" : "shell" , "arguments":', '{"name":"shell","arguments":{"path":"\\n```\\n"}}',
]  # fmt: skip

SEEDS = [piece.encode() for piece in PIECES]


def starter(rnd: random.Random, count: int) -> list[str]:
    """Violations in `count` answers and as many schemas."""
    found = []
    for _ in range(count):
        written = "".join(rnd.choices(PIECES, k=rnd.randrange(1, 8)))
        if rnd.random() < 0.5:
            written = mutated(rnd, written.encode("utf-8", "replace")).decode("utf-8", "replace")
        found += _problems(written, rnd)
        found += _of_schema(spoilt(rnd, SCHEMA))
    return found


def problems_of(data: bytes) -> list[str]:
    """What is wrong with the reading of an answer of these bytes."""
    return _problems(data.decode("utf-8", "replace"), random.Random(data))


def _problems(written: str, rnd: random.Random) -> list[str]:
    """What is wrong with the reading of one answer."""
    try:
        whole, cut = _read([written]), _read(_cut(written, rnd))
    except Exception as exc:  # noqa: BLE001 - that is what is looked for
        return [f"{exc!r} of {written!r}"]
    text, calls = _told(whole)
    found = []
    if (text, calls) != _told(cut):
        found.append(f"cut, it is read otherwise: {written!r}")
    if not calls and text != written:
        found.append(f"prose is lost or added: {written!r}")
    if calls and not (written.startswith(text) and isinstance(whole[-1], ToolCallReady)):
        found.append(f"something stands around a call that was not written: {written!r}")
    wrong = [c for c in calls if c.name not in NAMES or not _is_object(c.arguments)]
    found += [f"a call of no tool, or without an object: {c} of {written!r}" for c in wrong]
    if len(calls) > 1 or (calls and not any(isinstance(e, ToolCallStarted) for e in whole)):
        found.append(f"more than one call, or one that never began: {written!r}")
    return found


def _read(pieces: list[str]) -> list[ModelEvent]:
    """All events of an answer that comes in these pieces."""
    reader = CallReader(TOOLS, "c1")
    events = [event for piece in pieces for event in reader.feed(piece)]
    return [*events, *reader.finish()]


def _cut(written: str, rnd: random.Random) -> list[str]:
    cuts = sorted(rnd.randrange(len(written) + 1) for _ in range(rnd.randrange(1, 9)))
    return [written[a:b] for a, b in zip([0, *cuts], [*cuts, len(written)], strict=True)]


def _told(events: list[ModelEvent]) -> tuple[str, list[Any]]:
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    return text, [event.call for event in events if isinstance(event, ToolCallReady)]


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except ValueError:
        return False


def _of_schema(schema: Any) -> list[str]:
    offer = bounded("t", "A tool. More", schema)
    tool = ToolSpec(offer.name, offer.description, offer.schema)
    request = ModelRequest(
        system="s", messages=(Message("user", "x"),), tools=(tool,), session_id="s"
    )
    try:
        problem = LLMatcher.validate_grammar(request_body(request)["grammar"])
    except Exception as exc:  # noqa: BLE001
        problem = repr(exc)
    return [f"{problem} of the schema {json.dumps(schema)}"[:600]] if problem else []
