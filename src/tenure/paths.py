"""Paths as people write them, and folders of ours.

What cannot be a path is simply not there; but for `make_private` nothing here fails.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path


def named(text: str) -> Path:
    """The path that was written; ``~`` and ``~user`` stand for homes.

    One of a user who is not known here stays as it is, and is nowhere.
    """
    return Path(os.path.expanduser(text))  # noqa: PTH111 - pathlib's raises RuntimeError for it


@functools.lru_cache(maxsize=256)
def kept(text: str) -> Path:
    """The path, the same object for all who ask: making one takes longer than looking at it."""
    return Path(text)


def is_folder(path: Path) -> bool:
    """Whether there is a folder; False also for a name that no file can have."""
    return os.path.isdir(path)  # noqa: PTH112 - pathlib's raises OSError for it


def is_file(path: Path) -> bool:
    """Whether there is a regular file; False also for a name that no file can have."""
    return os.path.isfile(path)  # noqa: PTH113 - as above


def is_there(path: Path | str) -> bool:
    """Whether there is anything; False also for a name that nothing can have."""
    return os.path.exists(path)  # noqa: PTH110 - as above


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for ourselves alone (0700). Blocks.

    `Path.mkdir` would give its mode to the last one only.

    Raises:
        OSError: it cannot be made.
    """
    if not folder.is_dir():
        if folder.parent != folder:
            make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
