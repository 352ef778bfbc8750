"""Looking at a folder: every entry below it, the contents that are new kept. Blocks: for a thread.

The walk goes by levels, so that where a limit is reached what lies near the root is covered. It
follows no link and leaves no file system. What is left out is left out by a stated rule, and said.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections import deque
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import msgspec

from tenure.checkpoints.blobs import Blobs, Stop, read_piece
from tenure.checkpoints.manifest import Entries, Entry, entry_of, shown
from tenure.checkpoints.walk import opened, split
from tenure.settings import CheckpointsConfig

RACY_NS = 50_000_000
"""A file touched this shortly before is read again the next time: clocks of files are coarse."""
SKIPPED_MAX = 100
"""What was left out is listed up to here; the rest is counted."""
DEPTH_MAX = 64
_CACHE_TAG = b"Signature: 8a477f597d28d172789f06886806bc55"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Skipped(msgspec.Struct, frozen=True):
    """What was left out, and why."""

    path: str
    why: str


class Scan(msgspec.Struct):
    """What was found.

    Attributes:
        entries: by path.
        skipped: the first `SKIPPED_MAX` that were left out.
        skipped_count: how many were.
        partial: a limit on all of it (entries, bytes, time) was reached.
        bytes: of all files that are covered.
        added: bytes of contents that were not kept before.
    """

    entries: Entries
    skipped: list[Skipped]
    skipped_count: int = 0
    partial: bool = False
    bytes: int = 0
    added: int = 0


class Scanner:
    """One look at one folder.

    Args:
        limits: what is covered.
        blobs: where contents are kept; None to look only.
        before: an earlier look, for what has not changed since.
        own: folders never covered, by device and inode: our own.
        stop: ends it early.
    """

    def __init__(
        self,
        limits: CheckpointsConfig,
        blobs: Blobs | None,
        before: Mapping[bytes, Entry],
        own: frozenset[tuple[int, int]],
        stop: Stop,
    ) -> None:
        self._limits = limits
        self._blobs = blobs
        self._before = before
        self._own = own
        self._stop = stop
        self._names = frozenset(os.fsencode(name) for name in limits.skip)
        self._scan = Scan({}, [])
        self._device = 0
        self._racy_from_ns = 0
        self._until_s = 0.0

    def run(self, root_fd: int, now_ns: int) -> Scan:
        """Look at everything below an open folder.

        Args:
            root_fd: the folder; borrowed.
            now_ns: the file system's present time (`Blobs.prepare`).

        Raises:
            StoreError: a content could not be kept. Stopped: by `stop`.
        """
        self._device = os.fstat(root_fd).st_dev
        self._racy_from_ns = now_ns - RACY_NS
        self._until_s = time.monotonic() + self._limits.seconds_max
        waiting = deque([b""])
        while waiting:
            if time.monotonic() > self._until_s:
                self._cut(f"the look took over {self._limits.seconds_max:g} s", waiting)
                break
            folder = waiting.popleft()
            try:
                with opened(root_fd, folder) as fd:
                    waiting.extend(self._look(fd, folder))
            except OSError as exc:
                self._leave_out(folder, exc.strerror or str(exc))
        return self._scan

    def _look(self, fd: int, folder: bytes) -> list[bytes]:
        """Take the entries of one folder; the folders among them."""
        room = self._limits.files_max - len(self._scan.entries)
        with os.scandir(fd) as found:
            names = sorted(os.fsencode(entry.name) for entry in islice(found, room + 1))
        if folder and self._is_cache(fd, names):
            self._leave_out(folder, "a cache or a virtual environment")
            self._scan.entries.pop(folder, None)
            return []
        if len(names) > room:
            self._cut(f"more than {self._limits.files_max:,} entries", [folder])
            names = names[: max(0, room)]
        inner: list[bytes] = []
        for name in names:
            self._stop.check()
            path = folder + b"/" + name if folder else name
            try:
                if self._take(fd, name, path):
                    inner.append(path)
            except FileNotFoundError:
                continue  # gone meanwhile
            except OSError as exc:
                self._leave_out(path, exc.strerror or str(exc))
        return inner

    def _take(self, fd: int, name: bytes, path: bytes) -> bool:
        """Take one entry; whether it is a folder to look into."""
        st = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISREG(st.st_mode):
            self._take_file(fd, name, path, st)
        elif stat.S_ISLNK(st.st_mode):
            target = os.fsencode(os.readlink(name, dir_fd=fd))
            self._scan.entries[path] = entry_of(path, st, target)
        elif not stat.S_ISDIR(st.st_mode):
            self._leave_out(path, "neither a file nor a folder nor a link")
        elif why := self._why_not_into(name, path, st):
            self._leave_out(path, why)
        else:
            self._scan.entries[path] = entry_of(path, st, b"")
            return True
        return False

    def _why_not_into(self, name: bytes, path: bytes, st: os.stat_result) -> str:
        if (st.st_dev, st.st_ino) in self._own:
            return "Tenure's own folder"
        if name in self._names:
            return "left out by name (checkpoints.skip)"
        if st.st_dev != self._device:
            return "another file system"
        return f"over {DEPTH_MAX} folders deep" if path.count(b"/") >= DEPTH_MAX else ""

    def _take_file(self, fd: int, name: bytes, path: bytes, st: os.stat_result) -> None:
        limits = self._limits
        if st.st_size > limits.file_bytes_max:
            self._leave_out(path, f"over {limits.file_bytes_max:,} bytes")
            return
        if self._scan.bytes + st.st_size > limits.total_bytes_max:
            self._cut(f"over {limits.total_bytes_max:,} bytes in all", [path])
            return
        old = self._before.get(path)
        if old is not None and old.kind == "f" and not old.racy and old.looks_like(st):
            entry = entry_of(path, st, old.blob)
        else:
            read = self._read(fd, name, path)
            if read is None:
                return
            entry = read
        self._scan.entries[path] = entry
        self._scan.bytes += entry.size

    def _read(self, fd: int, name: bytes, path: bytes) -> Entry | None:
        file = os.open(name, _READ, dir_fd=fd)
        try:
            st = os.fstat(file)
            if not stat.S_ISREG(st.st_mode):
                self._leave_out(path, "changed while it was looked at")
                return None
            kept = self._keep(file)
            after = os.fstat(file)
        finally:
            os.close(file)
        if kept is None:
            self._leave_out(path, f"over {self._limits.file_bytes_max:,} bytes")
            return None
        digest, size, added = kept
        self._scan.added += added
        touched = max(after.st_mtime_ns, after.st_ctime_ns) >= self._racy_from_ns
        racy = touched or size != after.st_size or st.st_mtime_ns != after.st_mtime_ns
        return entry_of(path, after, digest, racy=racy)

    def _keep(self, file: int) -> tuple[bytes, int, int] | None:
        bytes_max = self._limits.file_bytes_max
        if self._blobs is not None:
            return self._blobs.keep_file(file, bytes_max, self._stop)
        seen, size = hashlib.sha256(), 0
        while piece := read_piece(file, 1024 * 1024):
            self._stop.check()
            seen.update(piece)
            size += len(piece)
        return seen.digest(), size, 0

    def _is_cache(self, fd: int, names: list[bytes]) -> bool:
        if b"pyvenv.cfg" in names:
            return True
        if b"CACHEDIR.TAG" not in names:
            return False
        file = os.open(b"CACHEDIR.TAG", _READ, dir_fd=fd)
        try:
            return read_piece(file, len(_CACHE_TAG)) == _CACHE_TAG
        finally:
            os.close(file)

    def _cut(self, why: str, paths: deque[bytes] | list[bytes]) -> None:
        self._scan.partial = True
        for path in paths:
            self._leave_out(path, why)

    def _leave_out(self, path: bytes, why: str) -> None:
        self._scan.skipped_count += 1
        if len(self._scan.skipped) < SKIPPED_MAX:
            self._scan.skipped.append(Skipped(shown(path) or ".", why))


def own_folders(paths: tuple[Path, ...]) -> frozenset[tuple[int, int]]:
    """Folders by device and inode, as `Scanner` wants them."""
    found = set()
    for path in paths:
        try:
            st = path.stat()
        except OSError:
            continue
        found.add((st.st_dev, st.st_ino))
    return frozenset(found)


def read_now(root_fd: int, path: bytes, bytes_max: int) -> bytes | None:
    """The beginning of a file as it is now; None if it cannot be read."""
    folder, name = split(path)
    try:
        with opened(root_fd, folder) as fd:
            file = os.open(name, _READ, dir_fd=fd)
            try:
                regular = stat.S_ISREG(os.fstat(file).st_mode)
                return read_piece(file, bytes_max) if regular else None
            finally:
                os.close(file)
    except OSError:
        return None
