"""Folders below a root, opened step by step without ever following a link. Blocks: for a thread."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_real(path: str) -> int:
    """Open a folder by its real path: no part of it is a link. The caller owns the descriptor.

    Raises:
        OSError: it is not there, or a part of it is a link by now.
    """
    fd = os.open("/", FOLDER)
    for name in filter(None, path.split("/")):
        try:
            inner = os.open(name, FOLDER, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


@contextlib.contextmanager
def opened(root_fd: int, folder: bytes) -> Iterator[int]:
    """The folder at a path below `root_fd`, open for the block.

    Raises:
        OSError: it is not there, or a part of the path is no folder (a link is none).
    """
    fd = os.dup(root_fd)
    try:
        for name in filter(None, folder.split(b"/")):
            inner = os.open(name, FOLDER, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def split(path: bytes) -> tuple[bytes, bytes]:
    """Folder and name."""
    folder, _, name = path.rpartition(b"/")
    return folder, name
