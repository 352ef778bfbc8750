"""`tenure checkpoint`: list, diff, restore."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

from tenure.cli.attach import Where
from tenure.cli.holding import holding

SKIPPED_SHOWN = 5


async def list_checkpoints(where: Where, session: str, *, as_json: bool) -> int:
    """Newest first."""
    async with holding(where, session) as (client, session_id):
        found = await client.call("checkpoint.list", session_id=session_id)
    rows = list(reversed(found["checkpoints"]))
    if as_json:
        sys.stdout.write(json.dumps(rows, ensure_ascii=False, indent=1) + "\n")
        return 0
    if not rows:
        off = "" if found["enabled"] else " (checkpoints.enabled is false)"
        sys.stderr.write(f"No checkpoints{off}; one is taken before a turn changes files.\n")
    for row in rows:
        sys.stdout.write(_line(row))
    return 0


def _line(row: dict[str, Any]) -> str:
    made = datetime.fromtimestamp(row["created_at"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    lines = [f"{row['number']:>3}  {row['id']}  {made}  {row['files']:>6} entries  {row['label']}"]
    lines += [
        f"     not covered: {one['path']} ({one['why']})" for one in row["skipped"][:SKIPPED_SHOWN]
    ]
    if row["skipped_count"] > SKIPPED_SHOWN:
        lines.append(f"     not covered: {row['skipped_count'] - SKIPPED_SHOWN:,} more")
    return "\n".join(lines) + "\n"


async def diff_checkpoint(where: Where, session: str, checkpoint: str, path: str) -> int:
    """As text."""
    async with holding(where, session) as (client, session_id):
        told = await client.call(
            "checkpoint.diff", session_id=session_id, checkpoint=checkpoint, path=path
        )
    text = "\n\n".join(filter(None, [told["stat"], told["diff"].rstrip()]))
    sys.stdout.write(f"{text}\n" if text else "")
    if not text:
        sys.stderr.write("Nothing has changed since.\n")
    return 0


async def restore_checkpoint(
    where: Where, session: str, checkpoint: str, path: str, *, remove_new: bool
) -> int:
    """Restore, and say what was done; 1 if something could not be given back."""
    async with holding(where, session) as (client, session_id):
        done = await client.call(
            "checkpoint.restore", session_id=session_id, checkpoint=checkpoint, path=path,
            remove_new=remove_new,
        )  # fmt: skip
    for what in ("restored", "removed", "left"):
        for name in done[what]:
            note = " (made since; --remove-new removes it)" if what == "left" else ""
            sys.stdout.write(f"{what:<9} {name}{note}\n")
    for problem in done["problems"]:
        sys.stdout.write(f"not done  {problem['path']}: {problem['why']}\n")
    sys.stderr.write(
        f"{done['restored_count']} restored, {done['removed_count']} removed; "
        f"`tenure checkpoint restore {session_id} {done['undo']}` undoes it.\n"
    )
    return 1 if done["problem_count"] else 0
