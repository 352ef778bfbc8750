"""AGENTS.md: what a project tells its agents. Reads files: call it in a thread."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

NAME = "AGENTS.md"
FILE_BYTES_MAX = 24 * 1024
TOTAL_BYTES_MAX = 48 * 1024
LEVELS_MAX = 32


Seen = tuple[tuple[int, int, int] | None, ...]


class Instruction(NamedTuple):
    """One file that was used."""

    path: Path
    text: str


def read_instructions(cwd: Path, home: Path) -> tuple[Instruction, ...]:
    """The AGENTS.md files from `cwd` upward, outermost first.

    The way up ends at the root of a git repository, at `home` (which is looked at) or at the root
    of the file system. A file is cut at `FILE_BYTES_MAX`; the innermost win when all are too large.
    What cannot be read is left out.

    Args:
        cwd: the working directory, absolute.
        home: the user's home directory.
    """
    found: list[Instruction] = []
    room = TOTAL_BYTES_MAX
    for folder in upward(cwd, home):
        text = _read(folder / NAME, min(FILE_BYTES_MAX, room))
        if text:
            found.append(Instruction(folder / NAME, text))
            room -= len(text.encode("utf-8", "replace"))
    return tuple(reversed(found))


def look(folders: Iterable[Path]) -> Seen:
    """What tells whether `read_instructions` would find anything else than before; some stats.

    Take it before reading: what changes meanwhile is then seen the next time.

    Args:
        folders: as `upward` gives them.
    """
    return tuple(_stamp(folder / NAME) for folder in folders)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def upward(cwd: Path, home: Path) -> Iterator[Path]:
    """`cwd` and the folders above it that speak for it, innermost first."""
    for folder in (cwd, *cwd.parents)[:LEVELS_MAX]:
        yield folder
        if folder == home or (folder / ".git").exists():
            return


def project_of(folders: Sequence[Path], home: Path) -> tuple[Path, ...]:
    """The working directory, and the root of its repository where that is another folder.

    Args:
        folders: as `upward` gives them; none for none.
        home: the user's home directory, which is nobody's project.
    """
    if len(folders) < 2 or folders[-1] == home or folders[-1].parent == folders[-1]:
        return tuple(folders[:1])
    return folders[0], folders[-1]


def _read(path: Path, bytes_max: int) -> str:
    """Its beginning, or nothing. Neither a pipe nor a device can hold this up."""
    if bytes_max <= 0:
        return ""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return os.read(fd, bytes_max).decode("utf-8", "ignore").strip()
    except OSError:
        return ""
    finally:
        os.close(fd)
