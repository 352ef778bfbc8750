"""Finished trees of sub-agents that clients keep, a file each in the session's folder of outputs.

So they are deleted with their session, and grow old with its whole outputs. What stands in them is
what the client showed; here it is only bounded. Everything blocks: call it in a thread.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tenure.errors import NotFound, TooLarge
from tenure.ids import SESSION_ID
from tenure.paths import make_private
from tenure.protocol.trees import Tree

FOLDER = "trees"
TREES_MAX = 50
"""Of one session; the oldest go first."""
TREE_BYTES_MAX = 2 * 1024 * 1024
SESSIONS_MAX = 1_000
"""Whose trees are looked at for a list over all sessions: the ones used last."""
_NAME = re.compile(r"\d{13}-[0-9a-f]{12}")
_HEAD = msgspec.json.Decoder(Tree)


def save(spill: Path, tree: Tree) -> str:
    """Keep a tree; the name that `load` takes. The same one, from another client, is kept once.

    Raises:
        TooLarge: it is over 2 MiB.
        OSError: it could not be written.
    """
    content = msgspec.json.encode(tree)
    if len(content) > TREE_BYTES_MAX:
        raise TooLarge(
            f"The tree has {len(content):,} bytes; the limit is {TREE_BYTES_MAX >> 20} MiB."
        )
    same = hashlib.sha256(msgspec.json.encode(tree.subagents)).hexdigest()[:12]
    folder = spill / tree.session_id / FOLDER
    kept = sorted(_names(folder))
    for name in kept:
        if name.endswith(same):
            return f"{tree.session_id}/{name}"
    make_private(folder)
    name = f"{int(tree.finished_at * 1_000):013d}-{same}"
    part = folder / f"{name}.part"
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(content)
    part.rename(folder / name)
    for old in sorted([*kept, name])[:-TREES_MAX]:
        (folder / old).unlink(missing_ok=True)
    return f"{tree.session_id}/{name}"


def listed(spill: Path, session_id: str, limit: int) -> list[dict[str, Any]]:
    """What is kept of a session (empty: of all), the newest first."""
    found = [
        (name, one) for one in _sessions(spill, session_id) for name in _names(spill / one / FOLDER)
    ]
    rows: list[dict[str, Any]] = []
    for name, one in sorted(found, reverse=True)[:limit]:
        try:
            tree = load(spill, f"{one}/{name}")
        except NotFound:
            continue  # it is going just now, or is none of ours
        rows.append(
            {
                "path": f"{one}/{name}",
                "session_id": one,
                "label": tree.label,
                "count": len(tree.subagents),
                "started_at": tree.started_at,
                "finished_at": tree.finished_at,
            }
        )
    return rows


def load(spill: Path, path: str) -> Tree:
    """A tree by its name.

    Raises:
        NotFound: there is no such tree (any more).
    """
    session_id, _, name = path.partition("/")
    if SESSION_ID.fullmatch(session_id) and _NAME.fullmatch(name):
        file = spill / session_id / FOLDER / name
        try:
            fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(fd, "rb") as opened:  # noqa: PTH123 - a descriptor
                return _HEAD.decode(opened.read(TREE_BYTES_MAX + 1))
        except (OSError, msgspec.DecodeError):
            pass
    raise NotFound(f"No tree {path[:80]!r} is kept (any more); spawn_tree.list shows what is.")


def _sessions(spill: Path, session_id: str) -> list[str]:
    if session_id:
        return [session_id] if SESSION_ID.fullmatch(session_id) else []
    try:
        names = [name for name in os.listdir(spill) if SESSION_ID.fullmatch(name)]  # noqa: PTH208
    except OSError:
        return []
    return sorted(names, reverse=True)[:SESSIONS_MAX]


def _names(folder: Path) -> Iterator[str]:
    try:
        yield from (name for name in os.listdir(folder) if _NAME.fullmatch(name))  # noqa: PTH208
    except OSError:
        return
