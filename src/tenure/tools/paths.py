"""Finding a file below the working directory, and nowhere else.

A path is walked step by step from an open descriptor of the root, never following a link by
accident: each folder is opened relative to the one before with O_NOFOLLOW. A link is read and its
target walked the same way, so that links inside work and links that lead out are refused. What is
handed on is an open folder and a name in it; swapping something for a link between the check and
the use therefore leads nowhere. Everything here blocks: call it in a thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

from tenure.errors import ToolError
from tenure.sandbox.base import ANY, Bounds

PATH_BYTES_MAX = 4_096
LINKS_MAX = 40
"""As many as Linux follows in one path."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_RESERVED = frozenset(
    {"con", "prn", "aux", "nul", *(f"{stem}{n}" for stem in ("com", "lpt") for n in range(1, 10))}
)


class Place(NamedTuple):
    """An open folder and a name in it. The descriptor belongs to `place_below`'s block."""

    dir_fd: int
    name: str
    """The last component; "." for the root itself. Not a link when it was looked at."""
    shown: str
    """The path below the root, links resolved; for people."""


def pieces_below(root: Path, path: str) -> list[str]:
    """The components of `path` below `root`, by its spelling alone. Pure.

    Raises:
        ToolError: it is absolute elsewhere, climbs with "..", or cannot be a path.
    """
    if "\0" in path:
        raise ToolError("A path cannot contain a NUL character.")
    if len(os.fsencode(path)) > PATH_BYTES_MAX:
        raise ToolError(f"The path is longer than {PATH_BYTES_MAX} bytes.")
    if path.startswith("~"):
        raise ToolError(f"{path[:200]!r} is not below the working directory; give a relative path.")
    pieces = [piece for piece in path.split("/") if piece not in {"", "."}]
    if path.startswith("/"):
        above = [piece for piece in str(root).split("/") if piece]
        if pieces[: len(above)] != above:
            _leads_out(path, root)
        pieces = pieces[len(above) :]
    if ".." in pieces:
        raise ToolError(f"{path[:200]!r} climbs with '..'; give the path from {root} down.")
    return pieces


@contextlib.contextmanager
def place_below(
    root: Path, path: str, bounds: Bounds = ANY, *, make_parents: bool = False
) -> Iterator[Place]:
    """The place of `path`, with its folder held open for the block.

    Args:
        root: the working directory, absolute.
        path: relative to it, or absolute and below it.
        bounds: judges where the path has led to, before anything is made, read or changed there.
        make_parents: create missing folders (not the last component).

    Raises:
        ToolError: it is not below `root`, or out of `bounds`, or a folder on the way is missing, no
            folder or closed to us.
    """
    walk = _Walk(root, path, bounds, make_parents=make_parents)
    try:
        place = walk.go(pieces_below(root, path))
        bounds.check(root, path, place.shown)
        yield place
    except OSError as exc:
        raise ToolError(told(exc, path)) from None
    finally:
        walk.close()


class _Walk:
    """The folders that are open between the root and where we are."""

    def __init__(self, root: Path, path: str, bounds: Bounds, *, make_parents: bool) -> None:
        self._root = root
        self._path = path
        self._bounds = bounds
        self._make_parents = make_parents
        self._fds: list[int] = []
        self._names: list[str] = []
        self._links = 0

    def go(self, pieces: list[str]) -> Place:
        self._fds.append(os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        todo = deque(pieces)
        while todo:
            name = todo.popleft()
            if name == "..":  # in a link's target only
                self._climb()
            elif (target := self._link(name)) is not None:
                todo.extendleft(reversed(self._pieces_of(target)))
            elif todo:
                self._enter(name, todo)
            else:
                return Place(self._fds[-1], name, "/".join([*self._names, name]))
        return self._arrived_at_folder()

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())

    def _arrived_at_folder(self) -> Place:
        """The path ended in a folder that is open already (the root, or a link's ``..``)."""
        if not self._names:
            return Place(self._fds[0], ".", ".")
        return Place(self._fds[-2], self._names[-1], "/".join(self._names))

    def _enter(self, name: str, todo: Iterable[str]) -> None:
        here = self._fds[-1]
        try:
            fd = os.open(name, _FOLDER, dir_fd=here)
        except FileNotFoundError:
            if not self._make_parents or ".." in todo:
                raise
            # Below what is missing there are no links: where the path will end is known already.
            self._bounds.check(self._root, self._path, "/".join([*self._names, name, *todo]))
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=here)
            fd = os.open(name, _FOLDER, dir_fd=here)
        self._fds.append(fd)
        self._names.append(name)

    def _climb(self) -> None:
        if not self._names:
            _leads_out(self._path, self._root)
        self._names.pop()
        os.close(self._fds.pop())

    def _link(self, name: str) -> str | None:
        """The target if `name` is a link here."""
        try:
            target = os.readlink(name, dir_fd=self._fds[-1])
        except OSError:
            return None  # no link, or nothing: the open that follows says what
        self._links += 1
        if self._links > LINKS_MAX:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return target

    def _pieces_of(self, target: str) -> list[str]:
        pieces = [piece for piece in target.split("/") if piece not in {"", "."}]
        if not target.startswith("/"):
            return pieces
        above = [piece for piece in str(self._root).split("/") if piece]
        if pieces[: len(above)] != above:
            _leads_out(self._path, self._root)
        while self._names:  # an absolute target below the root: begin there again
            self._climb()
        return pieces[len(above) :]


def open_file(place: Place, shown: str) -> int:
    """Open an existing regular file for reading. The caller owns the descriptor.

    Raises:
        ToolError: it is no regular file, is not there, or is closed to us.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(place.name, flags, dir_fd=place.dir_fd)
    except OSError as exc:
        raise ToolError(told(exc, shown)) from None
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        kind = "a folder; use list" if stat.S_ISDIR(mode) else "no regular file"
        raise ToolError(f"{shown} is {kind}.")
    return fd


def open_folder(place: Place, shown: str) -> int:
    """Open an existing folder. The caller owns the descriptor.

    Raises:
        ToolError: it is no folder, is not there, or is closed to us.
    """
    try:
        return os.open(place.name, _FOLDER, dir_fd=place.dir_fd)
    except OSError as exc:
        raise ToolError(told(exc, shown)) from None


def check_new_name(name: str) -> None:
    """Refuse to create what other systems cannot hold.

    Raises:
        ToolError: the name is reserved.
    """
    if name.lower() in _RESERVED:
        raise ToolError(f"{name!r} is a reserved name on some systems; choose another.")


def told(exc: OSError, path: str) -> str:
    """An operating system's error as a sentence."""
    shown = path[:200]
    sentences = {
        errno.ENOENT: f"There is no {shown!r} below the working directory.",
        errno.ENOTDIR: f"A part of {shown!r} is not a folder.",
        errno.ELOOP: f"{shown!r} leads through too many links, or changed while it was opened.",
        errno.EACCES: f"{shown!r} may not be opened: permission denied.",
        errno.EPERM: f"{shown!r} may not be changed: not permitted.",
        errno.ENAMETOOLONG: f"A name in {shown!r} is too long.",
        errno.ENOSPC: f"{shown!r} was not written: the disk is full.",
        errno.EDQUOT: f"{shown!r} was not written: the disk quota is used up.",
        errno.EROFS: f"{shown!r} was not written: the file system is read-only.",
        errno.EISDIR: f"{shown!r} is a folder.",
    }
    return sentences.get(exc.errno or 0, f"{shown!r}: {exc.strerror or exc}.")


def _leads_out(path: str, root: Path) -> NoReturn:
    raise ToolError(f"{path[:200]!r} leads out of the working directory {root}; stay below it.")
