"""/rollback: list, compare and restore checkpoints, as text."""

from __future__ import annotations

from tenure.protocol import checkpoints as c
from tenure.protocol.params import ForSession
from tenure.rpc.handlers.checkpoint import (
    checkpoint_diff,
    checkpoint_restore,
    rollback_list,
    sentence,
)
from tenure.rpc.ports import Call

SHOWN_MAX = 20


async def rollback(session_id: str, arg: str, call: Call) -> str:
    """``/rollback``, ``/rollback diff [CHECKPOINT]``, ``/rollback CHECKPOINT [PATH]``."""
    first, _, rest = arg.partition(" ")
    if first in {"", "list", "ls"}:
        return await _list(session_id, call)
    if first == "diff":
        asked = c.CheckpointDiff(session_id=session_id, checkpoint=rest.strip())
        told = await checkpoint_diff(asked, call)
        return f"{told.stat}\n\n{told.diff}".strip() or "nothing has changed since"
    params = c.CheckpointRestore(session_id=session_id, checkpoint=first, path=rest.strip())
    return sentence(await checkpoint_restore(params, call))


async def _list(session_id: str, call: Call) -> str:
    listed = await rollback_list(ForSession(session_id=session_id), call)
    rows = listed["checkpoints"]
    if not rows:
        return "no checkpoints yet; one is taken before a turn changes files"
    lines = [
        f"{row['number']:>3}  {row['hash']}  {row['timestamp']}  {row['message']}"
        for row in rows[:SHOWN_MAX]
    ]
    if len(rows) > SHOWN_MAX:
        lines.append(f"     … and {len(rows) - SHOWN_MAX} older ones")
    return "\n".join([*lines, "/rollback diff N, /rollback N [PATH]"])
