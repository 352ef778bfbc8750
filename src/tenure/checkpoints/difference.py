"""What has changed since a checkpoint, as text for people. Blocks: for a thread."""

from __future__ import annotations

import difflib
import time
from collections.abc import Sequence

import msgspec

from tenure.checkpoints.blobs import Blobs
from tenure.checkpoints.manifest import Change, Entry, shown
from tenure.checkpoints.scan import read_now

FILE_BYTES_MAX = 256 * 1024
"""A larger file is named, not compared line by line."""
TEXT_CHARS_MAX = 256 * 1024
CHANGES_MAX = 1_000
SECONDS_MAX = 5.0


class ChangeLine(msgspec.Struct, frozen=True):
    """One path that changed."""

    path: str
    what: str


class Difference(msgspec.Struct):
    """What has changed.

    Attributes:
        changes: the first `CHANGES_MAX`.
        count: of all.
        stat: a line a path, for people.
        diff: unified diffs of texts, from the checkpoint to now.
        truncated: something does not stand in `diff` or `changes` for its size.
    """

    changes: list[ChangeLine]
    count: int
    stat: str
    diff: str
    truncated: bool


def describe(root_fd: int, blobs: Blobs, changes: Sequence[Change]) -> Difference:
    """Tell `changes`.

    Raises:
        StoreError: a saved content is gone.
    """
    until_s = time.monotonic() + SECONDS_MAX
    lines: list[ChangeLine] = []
    texts: list[str] = []
    chars, truncated = 0, len(changes) > CHANGES_MAX
    for change in changes[:CHANGES_MAX]:
        lines.append(ChangeLine(shown(change.path), change.what))
        if chars > TEXT_CHARS_MAX or time.monotonic() > until_s:
            truncated = True
            continue
        text, whole = _diff(root_fd, blobs, change)
        texts.append(text)
        chars += len(text)
        truncated = truncated or not whole
    diff = "".join(texts)
    if len(diff) > TEXT_CHARS_MAX:
        diff, truncated = f"{diff[:TEXT_CHARS_MAX]}\n[… more, not shown …]\n", True
    stat = "\n".join(f"{line.what:<9} {line.path}" for line in lines)
    return Difference(lines, len(changes), stat, diff, truncated)


def _diff(root_fd: int, blobs: Blobs, change: Change) -> tuple[str, bool]:
    """The diff of one path, and whether it tells all."""
    name = shown(change.path)
    if change.what == "mode" and change.then and change.now:
        return f"{name}: mode {change.then.mode:04o}, now {change.now.mode:04o}\n", True
    before = _lines(_then(blobs, change.then))
    after = _lines(_now(root_fd, change))
    if before is None or after is None:
        return f"{name}: too large or no text; {change.what}\n", False
    diff = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", n=3)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in diff), True


def _then(blobs: Blobs, then: Entry | None) -> bytes | None:
    if then is None or then.kind == "d":
        return b""
    if then.kind == "l":
        return b"-> " + then.blob
    return blobs.content(then.blob, FILE_BYTES_MAX + 1)


def _now(root_fd: int, change: Change) -> bytes | None:
    if change.now is None or change.now.kind == "d":
        return b""
    if change.now.kind == "l":
        return b"-> " + change.now.blob
    return read_now(root_fd, change.path, FILE_BYTES_MAX + 1)


def _lines(content: bytes | None) -> list[str] | None:
    """The lines of a text; None for what is none, or too large."""
    if content is None or len(content) > FILE_BYTES_MAX or b"\0" in content[:8192]:
        return None
    return content.decode("utf-8", "replace").splitlines(keepends=True)
