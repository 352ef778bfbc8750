"""Contents by their digest: each kept once, whoever refers to it. Blocks: for a thread.

    blobs/ab/cdef…   a content, named by its SHA-256
    blobs/ab/part-…  a content that is being written; so is what lies in tmp/ (large ones). A kill
                     leaves it there, the next start removes it

Nothing is synced to the disk one by one: a checkpoint survives the end of the process however it
comes. A content that a power failure has damaged is found by its digest, and said.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from pathlib import Path
from typing import BinaryIO

from tenure.errors import StoreError, StoreFull
from tenure.ids import new_id
from tenure.paths import make_private

PART = "part-"
PIECE_BYTES = 1024 * 1024
FREE_BYTES_MIN = 256 * 1024 * 1024
"""No checkpoint takes the last of the disk."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Stop:
    """Asks a thread to end early. Set on the loop, read in the thread."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked = False

    def check(self) -> None:
        """Raises Stopped once it is asked."""
        if self.asked:
            raise Stopped


class Stopped(Exception):  # noqa: N818 - no error: whoever asked for it is gone
    """The thread ends early."""


class Blobs:
    """The contents below a folder of ours.

    Args:
        folder: made on first use (0700).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._blobs = folder / "blobs"
        self._tmp = folder / "tmp"
        self._prefix = f"{self._blobs}/"  # text: thousands of paths are made from it

    def prepare(self) -> int:
        """Make the folders; the file system's present time in nanoseconds.

        Raises:
            StoreError: they cannot be made.
        """
        try:
            for folder in (self._blobs, self._tmp):
                make_private(folder)
            probe = self._tmp / new_id("now")
            fd = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            now_ns = os.fstat(fd).st_mtime_ns
            os.close(fd)
            probe.unlink()
        except OSError as exc:
            raise told(exc, self._folder) from None
        return now_ns

    def check_room(self) -> None:
        """Refuse to take the last of the disk.

        Raises:
            StoreFull: too little space is left.
        """
        free = shutil.disk_usage(self._folder).free
        if free < FREE_BYTES_MIN:
            raise StoreFull(
                f"Only {free >> 20} MiB are left for {self._folder}; it is kept from "
                f"taking the last {FREE_BYTES_MIN >> 20} MiB."
            )

    def path(self, digest: bytes) -> Path:
        """Where a content lies."""
        name = digest.hex()
        return self._blobs / name[:2] / name[2:]

    def _name(self, digest: bytes) -> str:
        name = digest.hex()
        return f"{self._prefix}{name[:2]}/{name[2:]}"

    def has(self, digest: bytes) -> bool:
        """Whether it is kept."""
        try:
            os.stat(self._name(digest))  # noqa: PTH116 - text is three times as fast here
        except FileNotFoundError:
            return False
        return True

    @staticmethod
    def digest_of(content: bytes) -> bytes:
        """What a content is kept under."""
        return hashlib.sha256(content).digest()

    def keep(self, content: bytes) -> tuple[bytes, int]:
        """Keep a content; its digest, and how many bytes that added.

        Raises:
            StoreError: it could not be written.
        """
        digest = self.digest_of(content)
        if self.has(digest):
            return digest, 0
        # In its own group: a file system that puts files near their folder would fill one corner.
        name = self._name(digest)
        part = f"{name[: -len(digest.hex()) + 2]}{PART}{new_id('blob')}"
        try:
            fd = _open_new(part)
            try:
                write_all(fd, content)
            finally:
                os.close(fd)
            os.rename(part, name)  # noqa: PTH104 - as in `has`
        except OSError as exc:
            Path(part).unlink(missing_ok=True)
            raise told(exc, self._folder) from None
        return digest, len(content)

    def keep_file(self, fd: int, bytes_max: int, stop: Stop) -> tuple[bytes, int, int] | None:
        """Keep what an open file holds; its digest, its size, and how many bytes that added.

        None: it is over `bytes_max`.

        Raises:
            StoreError: it could not be written. OSError: it could not be read. Stopped: by `stop`.
        """
        first = read_piece(fd, PIECE_BYTES)
        if len(first) > bytes_max:
            return None
        if len(first) < PIECE_BYTES:
            digest, added = self.keep(first)
            return digest, len(first), added
        part = self._tmp / new_id("blob")
        try:
            return self._copy(first, fd, part, bytes_max, stop)
        finally:
            part.unlink(missing_ok=True)

    def _copy(
        self, first: bytes, fd: int, part: Path, bytes_max: int, stop: Stop
    ) -> tuple[bytes, int, int] | None:
        seen = hashlib.sha256()
        size, piece = 0, first
        with _private(part) as file:
            while piece:
                stop.check()
                size += len(piece)
                if size > bytes_max:
                    return None
                seen.update(piece)
                try:
                    file.write(piece)
                except OSError as exc:
                    raise told(exc, self._folder) from None
                piece = read_piece(fd, PIECE_BYTES)
        digest = seen.digest()
        if self.has(digest):
            return digest, size, 0
        try:
            path = self.path(digest)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            part.replace(path)
        except OSError as exc:
            raise told(exc, self._folder) from None
        return digest, size, size

    def content(self, digest: bytes, bytes_max: int | None = None) -> bytes:
        """A content, checked; with `bytes_max` no more than its beginning, unchecked.

        Raises:
            StoreError: it is gone or damaged.
        """
        try:
            with self.path(digest).open("rb") as file:
                content = file.read() if bytes_max is None else file.read(bytes_max)
        except OSError as exc:
            raise told(exc, self._folder) from None
        if bytes_max is None and hashlib.sha256(content).digest() != digest:
            raise damaged(digest)
        return content

    def write_to(self, digest: bytes, fd: int) -> None:
        """Write a content to an open file, checking it on the way.

        Raises:
            StoreError: it is gone or damaged; what was written is to be thrown away.
            OSError: the file cannot be written.
        """
        seen = hashlib.sha256()
        try:
            source = self.path(digest).open("rb")
        except OSError as exc:
            raise told(exc, self._folder) from None
        with source:
            while piece := source.read(PIECE_BYTES):
                seen.update(piece)
                write_all(fd, piece)
        if seen.digest() != digest:
            raise damaged(digest)

    # --- tidying ------------------------------------------------------------------------------

    def empty_tmp(self) -> int:
        """Remove what an interrupted writing left; how many bytes. Nobody may be writing."""
        removed = 0
        groups = [part for group in _children(self._blobs) for part in group.glob(f"{PART}*")]
        for part in [*_children(self._tmp), *groups]:
            removed += part.stat().st_size
            part.unlink(missing_ok=True)
        return removed

    def sizes(self) -> dict[bytes, int]:
        """Every content that is kept, with its size in bytes."""
        found: dict[bytes, int] = {}
        for group in _children(self._blobs):
            for blob in _children(group):
                try:
                    found[bytes.fromhex(group.name + blob.name)] = blob.stat().st_size
                except (ValueError, OSError):
                    continue
        return found

    def remove(self, digest: bytes) -> None:
        """Forget a content. Nothing may refer to it."""
        self.path(digest).unlink(missing_ok=True)


def _open_new(path: str) -> int:
    try:
        return os.open(path, _NEW, 0o600)
    except FileNotFoundError:  # the first of its group
        Path(path).parent.mkdir(mode=0o700, exist_ok=True)
        return os.open(path, _NEW, 0o600)


def write_all(fd: int, content: bytes) -> None:
    """Write everything."""
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def read_piece(fd: int, size: int) -> bytes:
    """Up to `size` bytes; fewer only at the end."""
    first = os.read(fd, size)
    if not first or len(first) == size:
        return first
    pieces, size = [first], size - len(first)
    while size > 0 and (piece := os.read(fd, size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def told(exc: OSError, folder: Path) -> StoreError:
    """An operating system's error as one of ours."""
    if exc.errno in _FULL:
        return StoreFull(f"No space is left for checkpoints in {folder}; free some.")
    return StoreError(f"Checkpoints in {folder} failed: {exc.strerror or exc}.")


def damaged(digest: bytes) -> StoreError:
    """The content is not what its name says."""
    return StoreError(f"A saved content ({digest.hex()[:12]}) is damaged and cannot be given back.")


def _private(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, _NEW, 0o600), "wb")


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
