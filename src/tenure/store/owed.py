"""What is owed after something has ended: a note to the model, a hook. Rows, and their writes.

They are part of `store/base.py`, which says what a write is.
"""

from __future__ import annotations

import msgspec


class NoteRow(msgspec.Struct, frozen=True):
    """Something that the model of one session is told once, with its next turn."""

    id: str
    session_id: str
    """Fixed when the note is made."""
    subject: str
    """What it is about: the id of a background process."""
    text: str
    created_at: float
    delivered_at: float = 0.0
    """0 until it stands in the history."""


class EndRow(msgspec.Struct, frozen=True):
    """The end of an incarnation of a session, for which a hook has to run, or runs."""

    session_id: str
    epoch: int
    reason: str
    at: float
    started_at: float = 0.0
    """0 until the hook was started; it is never started again."""


class InsertNote(msgspec.Struct, frozen=True):
    """Add a note."""

    row: NoteRow


class DeliverNotes(msgspec.Struct, frozen=True):
    """Mark notes as delivered; fails with `LeaseLost` where one of them was, or is not there.

    Written together with the entry of history that holds them, so each stands there once.
    """

    ids: tuple[str, ...]
    at: float


class InsertEnd(msgspec.Struct, frozen=True):
    """Store that the hook for the end of a session has to run; its epoch is that of the lease."""

    session_id: str
    reason: str
    at: float


class StartEnd(msgspec.Struct, frozen=True):
    """The hook is about to run; fails with `LeaseLost` where it was started before, or is over."""

    session_id: str
    epoch: int
    at: float


class FinishEnd(msgspec.Struct, frozen=True):
    """Forget the end: its hook is over, or its outcome will never be known."""

    session_id: str
    epoch: int


class EndIdle(msgspec.Struct, frozen=True):
    """End a stored session that is unloaded; the result tells whether it was.

    Its lease gets a higher epoch, as if it had been opened for it. With `hook`, as `InsertEnd`.
    """

    session_id: str
    reason: str
    at: float
    hook: bool = False
