"""AGENTS.md: what a project tells its agents. Reads files: call it in a thread."""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tenure.paths import is_there

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
    return tuple(_stamp(_file_in(folder)) for folder in folders)


@functools.lru_cache(maxsize=256)
def _file_in(folder: Path) -> str:
    return str(folder / NAME)


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - many are looked at, each time an agent is built
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def upward(cwd: Path, home: Path) -> Iterator[Path]:
    """`cwd` and the folders above it that speak for it, innermost first."""
    for folder, repository in _ladder(cwd):
        yield folder
        if folder == home or is_there(repository):
            return


@functools.lru_cache(maxsize=256)
def _ladder(cwd: Path) -> tuple[tuple[Path, str], ...]:
    """A folder and those above it, each with where it would hold a repository."""
    return tuple((step, str(step / ".git")) for step in (cwd, *cwd.parents)[:LEVELS_MAX])


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
