"""checkpoint.* and rollback.*: what a folder held before a turn changed it, and how it comes back.

``rollback.*`` is what the terminal client calls; ``checkpoint.*`` tells more.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tenure.protocol.params import ForSession


class CheckpointRow(msgspec.Struct, kw_only=True):
    """One checkpoint."""

    id: str
    number: int
    """Its number in the session, which stays its own; it can be named by it."""
    turn_id: str
    kind: str
    """turn (taken before a turn's first change) or restore (taken before a restore)."""
    of: str
    """For a restore: the checkpoint that was given back."""
    created_at: float
    label: str
    """The turn's prompt, shortened."""
    root: str
    files: int
    bytes: int
    added: int
    """Bytes that were not kept before."""
    skipped: list[dict[str, str]]
    """What is not covered, and why: ``[{path, why}]``, the first hundred."""
    skipped_count: int
    partial: bool
    """A limit on all of it was reached; what lies near the root is covered."""


class CheckpointRows(msgspec.Struct):
    """Result of checkpoint.list, oldest first."""

    enabled: bool
    checkpoints: list[CheckpointRow]


class CheckpointDiff(ForSession, kw_only=True):
    """Params of checkpoint.diff."""

    checkpoint: str = ""
    """An id, its beginning, or its number; empty: the last turn's."""
    path: str = ""
    """One file or folder only."""


class CheckpointDifference(msgspec.Struct):
    """Result of checkpoint.diff: what has changed since."""

    changes: list[dict[str, str]]
    """``[{path, what}]``; what is deleted, modified, mode, kind or created."""
    count: int
    stat: str
    diff: str
    truncated: bool


class CheckpointRestore(CheckpointDiff, kw_only=True):
    """Params of checkpoint.restore."""

    remove_new: bool = False
    """Also remove what was made since; undoing a restore always removes what that one made."""


class CheckpointRestored(msgspec.Struct, kw_only=True):
    """Result of checkpoint.restore. The lists hold up to 500 names, the counts are whole."""

    checkpoint: str
    undo: str
    """The checkpoint that was taken before; restoring it undoes this."""
    restored: list[str]
    restored_count: int
    removed: list[str]
    removed_count: int
    left: list[str]
    """Made since, and left where it is."""
    left_count: int
    problems: list[dict[str, str]]
    """What was left as it is, and why: ``[{path, why}]``."""
    problem_count: int


class RollbackDiff(ForSession, kw_only=True):
    """Params of rollback.diff."""

    hash: str


class RollbackRestore(RollbackDiff, kw_only=True):
    """Params of rollback.restore."""

    file_path: str = ""


Anything = dict[str, Any]

CHECKPOINT_METHODS: dict[str, tuple[type[msgspec.Struct], Any, str]] = {
    "checkpoint.list": (ForSession, CheckpointRows, "The session's checkpoints."),
    "checkpoint.diff": (CheckpointDiff, CheckpointDifference, "What has changed since one."),
    "checkpoint.restore": (
        CheckpointRestore,
        CheckpointRestored,
        "Give the working directory, or one path of it, back as it was; refused during a turn.",
    ),
    "rollback.list": (ForSession, Anything, "Checkpoints as the terminal client reads them."),
    "rollback.diff": (RollbackDiff, Anything, "What has changed since a checkpoint."),
    "rollback.restore": (RollbackRestore, Anything, "Restore everything, or one file."),
}
"""name -> (params, result, about)"""
