"""checkpoint.*, and rollback.* for the terminal client: what turns changed comes back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from tenure.checkpoints.keeper import Restored
from tenure.checkpoints.records import Checkpoint
from tenure.protocol import checkpoints as c
from tenure.protocol.params import ForSession
from tenure.rpc.handlers.attach import changing
from tenure.rpc.ports import Call
from tenure.sessions.saving import give_back, keeper_of, labels_of

LEFT_SHOWN = 5
"""Names of files made since, in a sentence."""


async def checkpoint_list(params: ForSession, call: Call) -> c.CheckpointRows:
    """The session's checkpoints, oldest first."""
    session = call.gateway.sessions.get(params.session_id)
    keeper = keeper_of(session)
    labels = await labels_of(session)
    rows = [
        _row(record, labels.get(record.turn_id, record.label))
        for record in await keeper.of_session(call.peer.scope, session.id)
    ]
    return c.CheckpointRows(keeper.enabled, rows)


async def checkpoint_diff(params: c.CheckpointDiff, call: Call) -> c.CheckpointDifference:
    """What has changed since a checkpoint."""
    session = call.gateway.sessions.get(params.session_id)
    told = await keeper_of(session).diff(
        call.peer.scope, session.id, params.checkpoint, params.path
    )
    changes: list[dict[str, str]] = msgspec.to_builtins(told.changes)
    return c.CheckpointDifference(changes, told.count, told.stat, told.diff, told.truncated)


async def checkpoint_restore(params: c.CheckpointRestore, call: Call) -> c.CheckpointRestored:
    """Give files back; it goes on to its end even if the client leaves."""
    session = changing(call, params.session_id)
    done = await give_back(
        call.gateway.sessions,
        session,
        params.checkpoint,
        params.path,
        remove_new=params.remove_new,
    )
    return restored_of(done)


async def rollback_list(params: ForSession, call: Call) -> dict[str, Any]:
    """Newest first, since the client numbers them from the top."""
    listed = await checkpoint_list(params, call)
    rows = [
        {
            "hash": row.id,
            "number": row.number,
            "timestamp": datetime.fromtimestamp(row.created_at, UTC)
            .astimezone()
            .isoformat(" ", "seconds"),
            "message": f"{row.label} ({_extent(row)})",
        }
        for row in reversed(listed.checkpoints)
    ]
    return {"enabled": listed.enabled or bool(rows), "checkpoints": rows}


async def rollback_diff(params: c.RollbackDiff, call: Call) -> dict[str, Any]:
    """What has changed since."""
    asked = c.CheckpointDiff(session_id=params.session_id, checkpoint=params.hash)
    told = await checkpoint_diff(asked, call)
    return {"stat": told.stat, "diff": told.diff, "truncated": told.truncated}


async def rollback_restore(params: c.RollbackRestore, call: Call) -> dict[str, Any]:
    """Restore; history stays as it is."""
    asked = c.CheckpointRestore(
        session_id=params.session_id, checkpoint=params.hash, path=params.file_path
    )
    done = await checkpoint_restore(asked, call)
    told = sentence(done)
    success = not done.problem_count or bool(done.restored_count)
    return {
        "success": success, "restored_to": done.checkpoint, "message": told, "reason": told,
        "error": "" if success else told, "undo": done.undo, "history_removed": 0,
    }  # fmt: skip


def sentence(done: c.CheckpointRestored) -> str:
    """What a restore did, in one sentence."""
    told = f"{done.restored_count} restored, {done.removed_count} removed"
    if done.left_count:
        names = ", ".join(done.left[:LEFT_SHOWN])
        more = " …" if done.left_count > LEFT_SHOWN else ""
        told += f", {done.left_count} made since and left ({names}{more})"
    if done.problem_count:
        first = done.problems[0]
        told += f", {done.problem_count} not restored ({first['path']}: {first['why']})"
    return f"{told}; /rollback {done.undo} undoes it"


def _extent(row: c.CheckpointRow) -> str:
    left_out = f", {row.skipped_count} left out" if row.skipped_count else ""
    return f"{row.files:,} entries{left_out}"


def _row(record: Checkpoint, label: str) -> c.CheckpointRow:
    return c.CheckpointRow(
        id=record.id, number=record.ordinal, turn_id=record.turn_id, kind=record.kind, of=record.of,
        created_at=record.created_at, label=label, root=record.root, files=record.files,
        bytes=record.bytes, added=record.added, skipped=msgspec.to_builtins(record.skipped),
        skipped_count=record.skipped_count, partial=record.partial,
    )  # fmt: skip


def restored_of(done: Restored) -> c.CheckpointRestored:
    """What a restore did, for an answer."""
    out = done.outcome
    return c.CheckpointRestored(
        checkpoint=done.checkpoint.id, undo=done.undo.id, restored=out.restored,
        restored_count=out.restored_count, removed=out.removed, removed_count=out.removed_count,
        left=out.left, left_count=out.left_count, problems=msgspec.to_builtins(out.problems),
        problem_count=out.problem_count,
    )  # fmt: skip
