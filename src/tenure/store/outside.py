"""Things of ours that the system does not end with us: containers. Rows, and their writes.

They are part of `store/base.py`, which says what a write is. A row is written before the thing is
made and ended after it is gone, so that whoever compares finds all of them.
"""

from __future__ import annotations

import msgspec


class ContainerRow(msgspec.Struct, frozen=True):
    """A container that was, or is to be, made for a session."""

    id: str
    """Ours, made before the container is; it stands in a label of it."""
    session_id: str
    instance: str
    """The gateway's run that makes it."""
    created_at: float
    reason: str = ""
    """Why it ended."""
    ended_at: float = 0.0
    """0 while it may be there."""


class InsertContainer(msgspec.Struct, frozen=True):
    """A container is about to be made."""

    row: ContainerRow


class EndContainer(msgspec.Struct, frozen=True):
    """It is gone; the result is whether its row said otherwise. The first reason stands."""

    id: str
    reason: str
    at: float


class PruneContainers(msgspec.Struct, frozen=True):
    """Forget those that ended before a moment; the result is how many."""

    before: float
