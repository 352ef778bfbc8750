"""prompt.* and what goes back in a session: undo, another wording, branches, compression."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from tenure.protocol.params import ForSession


class PromptSubmit(ForSession, kw_only=True):
    """Params of prompt.submit."""

    text: str
    key: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """An idempotency key of the client's: the same key and text get the same receipt, however
    often they come, also after a restart. The same key with another text is refused."""
    when_busy: Literal["queue", "steer", "interrupt"] | None = None
    """What to do if a turn runs: wait behind it, go into it, or end it and run. None: as the
    session is set (config.set busy)."""
    truncate_before_user_ordinal: int | None = None
    """Take back the prompt with this number (from 0) and all that followed, then run this one."""


class Receipt(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Result of prompt.submit. It is sent after the commit."""

    status: str
    """streaming (runs now), queued (runs after ``position`` others) or steered (goes into the
    running turn at its next step, or runs after it)."""
    turn_id: str
    position: int = 0
    duplicate: bool = False
    """The key came before: this is the receipt of that prompt."""


class Undo(ForSession, kw_only=True):
    """Params of session.undo."""

    turns: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    files: bool = False
    """Give the files back, too, as they were before the first of these turns changed any."""


class Undone(msgspec.Struct, kw_only=True):
    """Result of session.undo."""

    removed: int
    """Entries of history."""
    turn_ids: list[str]
    text: str
    """The first prompt that was taken back."""
    files: str = ""
    """What became of the files, in a sentence."""


class PromptEdit(ForSession, kw_only=True):
    """Params of prompt.edit: an earlier prompt in other words; what came after it is taken back."""

    turn_id: str
    text: str
    files: bool = False
    key: Annotated[str, msgspec.Meta(max_length=200)] = ""


class BranchOff(ForSession, kw_only=True):
    """Params of session.branch."""

    name: str = ""
    at: int = 0
    """The last entry of history to take along (``seq`` of a message); 0 for all."""


class Branched(msgspec.Struct):
    """Result of session.branch: the new session, to which this connection is attached."""

    session_id: str
    title: str
    parent: str


class Compress(ForSession, kw_only=True):
    """Params of session.compress."""

    focus_topic: str = ""
    """What the summary must keep above all."""


class QueueRows(msgspec.Struct):
    """Result of prompt.queue.*: ``{turn_id, text, position, accepted_at, steered}`` in order."""

    entries: list[dict[str, Any]]


class QueueEdit(ForSession, kw_only=True):
    """Params of prompt.queue.edit."""

    turn_id: str
    text: str


class QueueRemove(ForSession, kw_only=True):
    """Params of prompt.queue.remove."""

    turn_id: str


class Steer(ForSession, kw_only=True):
    """Params of session.steer."""

    text: str
    key: Annotated[str, msgspec.Meta(max_length=200)] = ""


class Steered(msgspec.Struct):
    """Result of session.steer. `status` is what the terminal client knows, `how` says it all."""

    status: str
    text: str
    turn_id: str
    how: str


Anything = dict[str, Any]

PROMPT_METHODS: dict[str, tuple[type[msgspec.Struct], Any, str]] = {
    "prompt.submit": (PromptSubmit, Receipt, "Run a prompt, or queue it behind the running one."),
    "prompt.queue.list": (ForSession, QueueRows, "The prompts that wait, in order."),
    "prompt.queue.edit": (QueueEdit, QueueRows, "Change the text of a prompt that waits."),
    "prompt.queue.remove": (QueueRemove, QueueRows, "Take a waiting prompt out, as not run."),
    "prompt.edit": (PromptEdit, Receipt, "Send an earlier prompt again in other words."),
    "session.undo": (Undo, Undone, "Take the last turns back."),
    "session.branch": (BranchOff, Branched, "A new session with this one's history so far."),
    "session.compress": (Compress, Anything, "Replace older history by a summary now."),
    "session.steer": (Steer, Steered, "Say something to the running turn."),
}
"""name -> (params, result, about)"""
