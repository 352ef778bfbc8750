"""Giving a folder back what it held. Blocks: for a thread.

Every step is made relative to an open folder below the root, and a link is never followed, so
nothing outside is touched whatever is swapped meanwhile. Content is written beside its place under
one name of ours and then renamed into it. What could not be saved first is not overwritten.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence

import msgspec

from tenure.checkpoints.blobs import Blobs
from tenure.checkpoints.manifest import Change, Entry, shown
from tenure.checkpoints.walk import opened, split
from tenure.errors import StoreError

NAMES_MAX = 500
"""Names in a report; the rest is counted."""


class Problem(msgspec.Struct, frozen=True):
    """A path that was left as it is, and why."""

    path: str
    why: str


class Outcome(msgspec.Struct):
    """What was done. Each list has up to `NAMES_MAX` names; the counts are whole."""

    restored: list[str]
    removed: list[str]
    left: list[str]
    """Made since; left where they are."""
    problems: list[Problem]
    restored_count: int = 0
    removed_count: int = 0
    left_count: int = 0
    problem_count: int = 0


class Restorer:
    """Makes changes undone, one by one; a problem with one stops no other.

    Args:
        root_fd: the folder; borrowed.
        blobs: where contents are kept.
        part: the name under which content is written before it takes its place.
        removable: paths that were made since and may be removed.
    """

    def __init__(
        self, root_fd: int, blobs: Blobs, part: bytes, removable: frozenset[bytes]
    ) -> None:
        self._root = root_fd
        self._blobs = blobs
        self._part = part
        self._removable = set(removable)
        self._cleared: set[bytes] = set()
        self._modes: list[tuple[bytes, int]] = []
        self._outcome = Outcome([], [], [], [])

    def run(self, changes: Sequence[Change]) -> Outcome:
        """Undo `changes`, which come parents first."""
        out = self._outcome
        self._clear_the_way(changes)
        for change in changes:
            if change.then is None:
                continue
            with self._noting(change.path):
                self._give_back(change, change.then)
                out.restored_count += 1
                _note(out.restored, change.path)
        for change in reversed(changes):
            new = change.then is None and change.path not in self._cleared
            if new and change.now is not None:
                self._take_away(change.path, change.now)
        for path, mode in reversed(self._modes):
            with self._noting(path):
                self._set_mode(path, mode)
        return out

    def _clear_the_way(self, changes: Sequence[Change]) -> None:
        """What became a folder, and is to be none again, is emptied of what is saved."""
        turned = [c.path for c in changes if c.what == "kind" and c.now and c.now.kind == "d"]
        for change in reversed(changes):
            if change.then is None and any(change.path.startswith(p + b"/") for p in turned):
                self._removable.add(change.path)
                assert change.now is not None
                self._take_away(change.path, change.now)
                self._cleared.add(change.path)
        for path in reversed(turned):
            with self._noting(path), self._at(path) as (fd, name):
                os.rmdir(name, dir_fd=fd)

    @contextlib.contextmanager
    def _noting(self, path: bytes) -> Iterator[None]:
        """A problem becomes a line of the report."""
        try:
            yield
        except StoreError as exc:
            self._problem(path, exc.message)
        except OSError as exc:
            self._problem(path, f"{exc.strerror or exc}.")

    def _problem(self, path: bytes, why: str) -> None:
        self._outcome.problem_count += 1
        if len(self._outcome.problems) < NAMES_MAX:
            self._outcome.problems.append(Problem(shown(path), why))

    @contextlib.contextmanager
    def _at(self, path: bytes) -> Iterator[tuple[int, bytes]]:
        folder, name = split(path)
        with opened(self._root, folder) as fd:
            yield fd, name

    def _give_back(self, change: Change, then: Entry) -> None:
        with self._at(change.path) as (fd, name):
            there = _stat(fd, name)
            if there is not None and not stat.S_ISDIR(there.st_mode):
                _check_saved(change.now, there)
            if then.kind == "d":
                self._give_folder(fd, name, then, there)
            elif then.kind == "l":
                os.symlink(then.blob, self._part, dir_fd=fd)
                self._into_place(fd, name)
            elif change.what == "mode":
                self._change_mode(fd, name, then)
            else:
                self._give_file(fd, name, then)

    def _give_folder(self, fd: int, name: bytes, then: Entry, there: os.stat_result | None) -> None:
        if there is not None and not stat.S_ISDIR(there.st_mode):
            os.unlink(name, dir_fd=fd)
            there = None
        if there is None:
            os.mkdir(name, 0o700, dir_fd=fd)
        self._set_mode(then.path, then.mode | 0o700)  # its content comes next
        self._modes.append((then.path, then.mode))

    def _give_file(self, fd: int, name: bytes, then: Entry) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(self._part, flags, 0o600, dir_fd=fd)
        try:
            try:
                self._blobs.write_to(then.blob, file)
                _own(file, then)
                os.fchmod(file, then.mode & 0o1777)  # no set-user-id on what we have written
            finally:
                os.close(file)
            self._into_place(fd, name)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(self._part, dir_fd=fd)
            raise

    def _into_place(self, fd: int, name: bytes) -> None:
        try:
            os.rename(self._part, name, src_dir_fd=fd, dst_dir_fd=fd)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(self._part, dir_fd=fd)
            raise

    def _change_mode(self, fd: int, name: bytes, then: Entry) -> None:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=fd)
        try:
            os.fchmod(file, then.mode & 0o1777)
        finally:
            os.close(file)

    def _set_mode(self, path: bytes, mode: int) -> None:
        with opened(self._root, path) as fd:
            os.fchmod(fd, mode)

    def _take_away(self, path: bytes, now: Entry) -> None:
        if path not in self._removable:
            self._outcome.left_count += 1
            _note(self._outcome.left, path)
            return
        with self._noting(path):
            self._unlink(path, now)
            self._outcome.removed_count += 1
            _note(self._outcome.removed, path)

    def _unlink(self, path: bytes, now: Entry) -> None:
        with self._at(path) as (fd, name):
            there = _stat(fd, name)
            if there is None:
                return
            if now.kind == "d":
                os.rmdir(name, dir_fd=fd)
                return
            _check_saved(now, there)
            os.unlink(name, dir_fd=fd)


def sweep_parts(root_fd: int, folders: Iterator[bytes], part: bytes) -> None:
    """Remove what a restore that was cut left beside its place."""
    for folder in folders:
        with contextlib.suppress(OSError), opened(root_fd, folder) as fd:
            os.unlink(part, dir_fd=fd)


def _stat(fd: int, name: bytes) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _check_saved(now: Entry | None, there: os.stat_result) -> None:
    """Refuse to replace what is not saved as it is.

    Raises:
        StoreError: with the reason.
    """
    if now is None:
        raise StoreError(
            "What is there now could not be saved first (a limit, or it is no file); move it away "
            "and restore again."
        )
    if not now.looks_like(there):
        raise StoreError("It changed while it was being restored; restore again.")


def _own(file: int, then: Entry) -> None:
    here = os.fstat(file)
    if (here.st_uid, here.st_gid) != (then.uid, then.gid):
        with contextlib.suppress(PermissionError):
            os.fchown(file, then.uid, then.gid)


def _note(names: list[str], path: bytes) -> None:
    if len(names) < NAMES_MAX:
        names.append(shown(path))
