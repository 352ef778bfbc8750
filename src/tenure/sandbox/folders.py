"""The folders of boxes: a gateway's own, and what earlier ones have left."""

from __future__ import annotations

from pathlib import Path

from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import call_in_thread, run_in_thread
from tenure.sandbox.bubblewrap import remove_tree


def own_folders(scope: Scope, boxes: Path, instance: str) -> Path:
    """The folder in which this gateway makes the folders of its sessions' boxes.

    It is made with the first of them and removed when `scope` closes. Those of earlier gateways,
    which were killed, are removed now, in a thread of `scope`: whoever holds the home is alone.

    Args:
        scope: owns it.
        boxes: of the home.
        instance: this gateway's run.
    """
    mine = boxes / instance
    scope.own("sandbox folders", mine, lambda path: call_in_thread(_leave, path), grace_s=10.0)
    scope.spawn(_sweep(scope, boxes, instance), name="sandbox folders")
    return mine


async def _sweep(scope: Scope, boxes: Path, instance: str) -> None:
    await run_in_thread(scope, remove_others, boxes, instance)


def remove_others(boxes: Path, instance: str) -> int:
    """Remove the folders of all gateways but this one; how many there were. Blocks."""
    try:
        others = [path for path in boxes.iterdir() if path.name != instance]
    except OSError:
        return 0  # there has never been any
    for path in others:
        remove_tree(path)
    return len(others)


def _leave(mine: Path) -> None:
    remove_tree(mine)
    try:
        mine.parent.rmdir()
    except OSError:
        return  # others are in it, or nobody has ever made it
