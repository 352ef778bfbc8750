"""The neutral vocabulary of a conversation: what models, tools, the loop and the store share.

Pure values; every provider's own form is translated to and from these at its adapter.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Role = Literal["user", "assistant", "tool"]


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that the model asked for. `arguments` is JSON text exactly as the model wrote it."""

    id: str
    name: str
    arguments: str


def as_object(text: str) -> dict[str, Any] | None:
    """Arguments as the object that they are, or None if they are none. No text is an empty object.

    Strict, since they are written to others again: no NaN, no half of a surrogate pair.
    """
    try:
        value = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class Upload(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A file that came with a prompt: what it is. Its bytes are kept once, under their digest."""

    id: str
    digest: str
    """SHA-256 of what is kept, in hexadecimal."""
    kind: Literal["image", "pdf", "text", "other"]
    """By its content, whatever its name says."""
    type: str
    """The media type, by its content."""
    name: str
    """One component, for people and the model."""
    size: int
    """Bytes of what is kept; an image that was made smaller was larger."""
    width: int = 0
    height: int = 0
    """Pixels of an image."""
    pages: int = 0
    """Of a PDF."""
    text: str = ""
    """The digest of the text that was read in a PDF; empty: none could be."""
    chars: int = 0
    """Characters of the text that it is, or that was read in it."""
    path: str = ""
    """Where the agent's tools find the whole of it; empty: nowhere."""

    @property
    def digests(self) -> tuple[str, ...]:
        """All that is kept of it."""
        return (self.digest, self.text) if self.text else (self.digest,)

    @property
    def about(self) -> str:
        """It in one line, for people and the model."""
        if self.kind == "image":
            what = f"image, {self.width} x {self.height} pixels"
        elif self.kind == "pdf":
            what = f"PDF, {self.pages} page{'' if self.pages == 1 else 's'}"
        elif self.kind == "text":
            what = f"text, {self.chars:,} character{'' if self.chars == 1 else 's'}"
        else:
            what = f"{self.type}, {self.size:,} bytes"
        return f"{self.name} ({what})"


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of a conversation, in the neutral form that every provider is translated from."""

    role: Role
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    """For role "tool": the call that this answers."""
    is_error: bool = False
    reasoning: str = ""
    note: bool = False
    """For role "user": the gateway tells the model something; nobody has asked for anything."""
    files: tuple[Upload, ...] = ()
    """For role "user": what came with it."""

    @property
    def asks(self) -> bool:
        """Whether a person has said it."""
        return self.role == "user" and not self.note


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A session that a search has found, with its best place."""

    session_id: str
    title: str
    used_at: float
    """Last use, in wall-clock seconds."""
    seq: int
    """The entry of its history."""
    role: Role
    snippet: str
    marks: tuple[tuple[int, int], ...]
    """Beginnings and ends of what matched, in `snippet`."""
    hits: int
    """Entries that match, of those that were ranked."""
    pinned: bool
    archived: bool
    tags: tuple[str, ...]


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as the model sees it. `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: dict[str, Any]


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens of one model call; zero where the provider does not say."""

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Sum, field by field."""
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.reasoning + other.reasoning,
        )
