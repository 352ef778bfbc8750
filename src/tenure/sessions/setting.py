"""One setting of a session at a time: two that change at once do not undo each other."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from tenure.sessions.journal import stored
from tenure.store.base import PatchSession

if TYPE_CHECKING:
    from tenure.sessions.actor import Session
    from tenure.sessions.projection import Wire


def keep_setting(
    session: Session, name: str, value: Any, *events: Wire
) -> Coroutine[Any, Any, None]:
    """Store a setting and tell `events` with it; it counts from the commit.

    That has begun when this returns; awaiting the result waits for the commit.

    Raises:
        StoreError: the old value stands.
    """
    commit = session.journal.record(
        [PatchSession(session.id, {"settings": {name: value}})], list(events)
    )
    return stored(commit, lambda: take_setting(session, name, value))


def take_setting(session: Session, name: str, value: Any) -> None:
    """Let a value count that is stored."""
    session.settings = {**session.settings, name: value}
