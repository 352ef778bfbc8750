"""Notes that the agents of a profile remember from session to session."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from tenure.protocol.params import MaybeSession


class OfProfile(MaybeSession, kw_only=True):
    """Whose notes: the profile of the session that is named, else `profile`."""

    profile: str = ""
    """Empty: the gateway's choice."""


class MemoryList(OfProfile, kw_only=True):
    """Params of memory.list."""

    state: Literal["", "proposed", "accepted"] = ""
    """Empty: all."""


class MemorySearch(MemoryList, kw_only=True):
    """Params of memory.search."""

    query: str
    """Words, all of which stand in a note; "phrases" and beginnings* as in session.search."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=50)] = 20


class MemoryAdd(OfProfile, kw_only=True):
    """Params of memory.add: a note of the person's own, which counts at once."""

    text: str


class MemoryAccept(OfProfile, kw_only=True):
    """Params of memory.accept."""

    id: int
    text: str = ""
    """In these words instead; also changes a note that counts already."""


class MemoryNumbers(OfProfile, kw_only=True):
    """Params of memory.reject (only what waits is removed) and memory.remove."""

    ids: Annotated[list[int], msgspec.Meta(min_length=1, max_length=1_000)]


class Remembered(msgspec.Struct, kw_only=True):
    """A note."""

    id: int
    text: str
    state: str
    """proposed or accepted; only accepted ones count."""
    by: str
    """agent or person."""
    session_id: str
    """Where it comes from; empty: from no session."""
    created_at: float
    decided_at: float
    """0: it waits."""


class Memories(msgspec.Struct):
    """Result of memory.list and memory.search."""

    notes: list[Remembered]


class Forgotten(msgspec.Struct):
    """Result of memory.reject and memory.remove: what was there."""

    removed: list[int]


class MemoryChanged(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Payload of memory.changed: the agent proposes a note, or has one kept."""

    id: int
    state: str
    text: str


METHOD = tuple[type[msgspec.Struct], Any, str]
MEMORY_METHODS: dict[str, METHOD] = {
    "memory.list": (MemoryList, Memories, "What is remembered, oldest first."),
    "memory.search": (MemorySearch, Memories, "Notes by words, the best match first."),
    "memory.add": (MemoryAdd, Remembered, "Have something remembered."),
    "memory.accept": (MemoryAccept, Remembered, "Let a note count, perhaps in other words."),
    "memory.reject": (MemoryNumbers, Forgotten, "Remove notes that wait, for good."),
    "memory.remove": (MemoryNumbers, Forgotten, "Remove notes, for good."),
}
"""name -> (params, result, about)"""
