"""How the starter model is asked: its instructions, a few examples, and a grammar. Pure.

The model (Qwen2.5-Coder-1.5B) does not follow its own template's tool format, so the tools stand in
the system text, a call is a fenced JSON block, and a grammar leaves it only two ways: such a call,
valid against the schema of an offered tool, or plain prose. The first token decides.

Everything before the person's first message is the *prefix*. It stays the same from turn to turn,
so that the runtime reads it once (and keeps its state on disk); with four tools it takes under 400
tokens. The examples are not about anything in particular: they show small talk without tools, and a
fact that is looked up before it is written down.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.conversation import Message, ToolCall, ToolSpec
from tenure.models.base import ModelRequest
from tenure.models.starter.schemas import arguments_of

ANSWER_TOKENS_MAX = 2_048
CHAT_TOKENS_MAX = 256
TASK_CHARS_MAX = 200
"""Characters of the task that a result repeats."""

_RULES = """\
Never guess: find facts with a tool first. To use a tool, answer with only:
```json
{"name":"tool","arguments":{}}
```
You get its result and go on. When no tool is needed or the work is done, answer in plain words."""

_REMINDER = "Is something still to be written or run? Then call the tool now, else answer."

_PROSE = r"/(?s:[^`{<\n ].*)/"
"""Anything that does not begin like a call, a tag or an empty line."""

_SMALL_TALK = (("Hi!", "Hello! How can I help you?"), ("What is 2+2?", "2 + 2 is 4."))

ChatMessage = dict[str, str]


def prefix(request: ModelRequest) -> list[ChatMessage]:
    """The messages before the conversation: system text with tools, and the examples."""
    if not request.tools:
        return [_said("system", request.system)] if request.system else []
    text = "\n".join([request.system, "", "Tools:", *map(_line, request.tools), _RULES]).strip()
    return [_said("system", text), *_examples({t.name for t in request.tools})]


def conversation(messages: Sequence[Message]) -> list[ChatMessage]:
    """The history, with calls and results in the starter's form.

    Each result repeats what was asked: right after a result this model otherwise tends to say that
    the work is done.
    """
    told: list[ChatMessage] = []
    task = ""
    for message in messages:
        if message.role == "user":
            task = message.text
        told.append(_message(message, task))
    return told


def grammar(tools: Sequence[ToolSpec], *, text_only: bool) -> str:
    """The Lark grammar for llguidance: a call or prose, or prose alone."""
    if text_only or not tools:
        return f"%llguidance {{}}\nstart: {_PROSE}\n"
    schema = {
        "anyOf": [_call_schema(tool) for tool in tools],
        "x-guidance": {"whitespace_flexible": False},
    }
    return (
        "%llguidance {}\n"
        "start: call | text\n"
        'call: "```json\\n" object "\\n```"\n'
        f"object: %json {msgspec.json.encode(schema).decode()}\n"
        f"text: {_PROSE}\n"
    )


def request_body(request: ModelRequest, *, chat_only: bool = False) -> dict[str, Any]:
    """The body of ``POST /v1/chat/completions`` for the runtime.

    Args:
        request: what to ask.
        chat_only: for the tiny model, which goes in circles unless it is kept from it.
    """
    tokens_max = CHAT_TOKENS_MAX if chat_only else ANSWER_TOKENS_MAX
    steady = {"repeat_penalty": 1.2} if chat_only else {}
    return {
        **steady,
        "messages": [*prefix(request), *conversation(request.messages)],
        "grammar": grammar(request.tools, text_only=request.text_only),
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
        "cache_prompt": True,
        "max_tokens": request.max_tokens or tokens_max,
        "temperature": request.temperature or 0.0,
    }


def warm_body(request: ModelRequest) -> dict[str, Any]:
    """A request that makes the runtime read the prefix and say next to nothing."""
    return {
        "messages": [*prefix(request), _said("user", "Hi!")],
        "stream": True,
        "return_progress": True,
        "cache_prompt": True,
        "max_tokens": 1,
        "temperature": 0.0,
        "id_slot": 0,
    }


GRAMMAR_BODY: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Hi!"}],
    "grammar": f"%llguidance {{}}\nstart: {_PROSE}\n",
    "stream": True,
    "max_tokens": 1,
}
"""The smallest request that has a grammar."""


def prefix_key(request: ModelRequest, runtime: str) -> str:
    """A name for the state of this prefix in this `runtime` (a text that says which)."""
    told = msgspec.json.encode([runtime, prefix(request)])
    return hashlib.sha256(told).hexdigest()[:32]


def call_text(name: str, arguments: str) -> str:
    """A call exactly as the grammar makes the model write it, so that caches keep matching."""
    return f'```json\n{{"name":{msgspec.json.encode(name).decode()},"arguments":{arguments}}}\n```'


def _said(role: str, text: str) -> ChatMessage:
    return {"role": role, "content": text}


def _message(message: Message, task: str) -> ChatMessage:
    if message.role == "tool":
        reminder = f"\n\nTask: {_short(task)}\n{_REMINDER}" if task else ""
        return _said("user", f"Result:\n{message.text}{reminder}")
    calls = [call_text(c.name, c.arguments or "{}") for c in message.tool_calls]
    return _said(message.role, "\n".join(part for part in (message.text, *calls) if part))


def _short(task: str) -> str:
    one_line = " ".join(task.split())
    return one_line if len(one_line) <= TASK_CHARS_MAX else f"{one_line[:TASK_CHARS_MAX]}…"


def _examples(names: set[str]) -> list[ChatMessage]:
    examples: list[ChatMessage] = []
    for asked, answered in _SMALL_TALK:
        examples += [_said("user", asked), _said("assistant", answered)]
    if not names >= {"shell", "write"}:
        return examples
    look = ToolCall("", "shell", '{"command":"uname -r"}')
    keep = ToolCall("", "write", '{"path":"kernel.txt","content":"6.1.0-18"}')
    shown = (
        Message("user", "Save the kernel version in kernel.txt"),
        Message("assistant", tool_calls=(look,)),
        Message("tool", "6.1.0-18"),
        Message("assistant", tool_calls=(keep,)),
        Message("tool", "Wrote 8 bytes to kernel.txt."),
        Message("assistant", "I saved the kernel version, 6.1.0-18, in kernel.txt."),
    )
    return examples + conversation(shown)


def _line(tool: ToolSpec) -> str:
    """A tool in a line: its arguments, and the first sentence about it."""
    first, dot, _ = tool.description.strip().partition(". ")
    return f"- {tool.name}({', '.join(arguments_of(tool))}): {first}{'.' if dot else ''}"


def _call_schema(tool: ToolSpec) -> dict[str, Any]:
    kept = arguments_of(tool)
    arguments = {
        "type": "object",
        "properties": kept,
        "required": list(kept),
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }
