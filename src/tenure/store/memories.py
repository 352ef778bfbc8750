"""What a profile's agents remember from session to session. Rows, and their writes.

They are part of `store/base.py`, which says what a write is. A note that is deleted, and the text
that another one had before, are gone from the file, the index and the write-ahead log.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class MemoryRow(msgspec.Struct, frozen=True):
    """One note."""

    id: int
    """Its number, never used twice; 0 before it is stored."""
    text: str
    state: Literal["proposed", "accepted"]
    by: Literal["agent", "person"]
    """Who wrote it."""
    session_id: str
    """In which session; empty: in none. It stays when that session goes."""
    created_at: float
    decided_at: float = 0.0
    """When it was accepted; 0: it waits."""


class InsertMemory(msgspec.Struct, frozen=True):
    """Keep a note; the result is its number, 0 where there is no room."""

    row: MemoryRow
    rows_max: int
    bytes_max: int
    """Of the texts of all notes."""


class AcceptMemory(msgspec.Struct, frozen=True):
    """Let a note count; the result is whether it is there."""

    id: int
    at: float
    text: str = ""
    """In other words; empty: as it stands."""


class DeleteMemories(msgspec.Struct, frozen=True):
    """Remove notes for good; the result is the numbers of those that were there."""

    ids: tuple[int, ...]
    state: Literal["", "proposed", "accepted"] = ""
    """Only those in that state; empty: in any."""
