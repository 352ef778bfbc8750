"""What a folder held at one moment: entries by path, how they are stored, how two of them differ.

Pure values. A manifest says where the content of each file lies (`blobs`), and what the file looked
like to the system, so that the next one need not read again what has not changed.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from tenure.errors import BadValue, StoreError

CHUNK_ENTRIES = 1_000
"""Entries decoded in one go: the interpreter's lock is held for about a millisecond."""
PATH_BYTES_MAX = 4_096


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file, a folder or a link below the root.

    Attributes:
        path: below the root, as the system names it.
        kind: f, d or l.
        mode: permission bits.
        blob: a file's content, as the digest that names it; a link's target.
        size, mtime_ns, ctime_ns, ino: as the system told them.
        racy: it was touched so shortly before that a later change might not be visible in them.
        uid, gid: who owned it.
    """

    path: bytes
    kind: Literal["f", "d", "l"]
    mode: int
    blob: bytes
    size: int
    mtime_ns: int
    ctime_ns: int
    ino: int
    uid: int
    gid: int
    racy: bool = False

    def looks_like(self, st: os.stat_result) -> bool:
        """Whether the system tells the same of `st`: then it has not been written to since."""
        size = st.st_size if stat.S_ISREG(st.st_mode) else 0
        told = (size, st.st_mtime_ns, st.st_ctime_ns, st.st_ino)
        return told == (self.size, self.mtime_ns, self.ctime_ns, self.ino)

    def same_as(self, other: Entry) -> bool:
        """Whether both are the same to whoever looks at the folder."""
        mine, others = (self.kind, self.mode, self.blob), (other.kind, other.mode, other.blob)
        return mine == others


Entries = dict[bytes, Entry]


def entry_of(path: bytes, st: os.stat_result, blob: bytes, *, racy: bool = False) -> Entry:
    """An entry from what the system tells."""
    kind: Literal["f", "d", "l"] = (
        "d" if stat.S_ISDIR(st.st_mode) else "l" if stat.S_ISLNK(st.st_mode) else "f"
    )
    return Entry(
        path, kind, stat.S_IMODE(st.st_mode), blob, st.st_size if kind == "f" else 0,
        st.st_mtime_ns, st.st_ctime_ns, st.st_ino, st.st_uid, st.st_gid, racy,
    )  # fmt: skip


_chunk = msgspec.msgpack.Decoder(list[Entry])
_outer = msgspec.msgpack.Decoder(list[bytes])


def pack(entries: Iterable[Entry]) -> bytes:
    """The stored form."""
    chunks: list[bytes] = []
    waiting: list[Entry] = []
    for entry in entries:
        waiting.append(entry)
        if len(waiting) == CHUNK_ENTRIES:
            chunks.append(msgspec.msgpack.encode(waiting))
            waiting = []
    chunks.append(msgspec.msgpack.encode(waiting))
    return zlib.compress(msgspec.msgpack.encode(chunks), 1)


def unpack(stored: bytes) -> Entries:
    """The entries of a stored manifest.

    Raises:
        StoreError: it is damaged.
    """
    entries: Entries = {}
    try:
        for chunk in _outer.decode(zlib.decompress(stored)):
            entries.update((entry.path, entry) for entry in _chunk.decode(chunk))
    except (zlib.error, msgspec.DecodeError) as exc:
        raise StoreError(f"A checkpoint's list of files is damaged ({exc}).") from None
    return entries


class Change(msgspec.Struct, frozen=True):
    """One path that is not as it was.

    Attributes:
        path: below the root.
        what: deleted, modified, mode, kind (a file became a folder, …) or created.
        then: as it was; None if it was not there.
        now: as it is; None if it is not there.
    """

    path: bytes
    what: Literal["deleted", "modified", "mode", "kind", "created"]
    then: Entry | None
    now: Entry | None


def changes(then: Mapping[bytes, Entry], now: Mapping[bytes, Entry], within: bytes) -> list[Change]:
    """What differs, parents first.

    Args:
        then: the checkpoint.
        now: the folder as it is.
        within: only this path, what is below it, and folders that led to it and are gone; empty:
            all.
    """
    found: list[Change] = []
    leading = frozenset(parents(within))
    for path in sorted(_chosen(then, now, within)):
        was, is_now = then.get(path), now.get(path)
        if was is None:
            found.append(Change(path, "created", None, is_now))
        elif is_now is None:
            found.append(Change(path, "deleted", was, None))
        elif was.kind != is_now.kind:
            found.append(Change(path, "kind", was, is_now))
        elif was.blob != is_now.blob:
            found.append(Change(path, "modified", was, is_now))
        elif was.mode != is_now.mode and was.kind != "l" and path not in leading:
            found.append(Change(path, "mode", was, is_now))
    return found


def _chosen(
    then: Mapping[bytes, Entry], now: Mapping[bytes, Entry], within: bytes
) -> Iterator[bytes]:
    leading = set(parents(within)) & then.keys()
    for path in then.keys() | now.keys():
        if not within or path == within or path.startswith(within + b"/") or path in leading:
            yield path


def parents(path: bytes) -> list[bytes]:
    """The folders that lead to `path`, the outermost first."""
    pieces = path.split(b"/")[:-1]
    return [b"/".join(pieces[: end + 1]) for end in range(len(pieces))]


def below(root: str, path: str) -> bytes:
    """`path` relative to `root`, as the system names it; empty for the root itself.

    Raises:
        BadValue: it leads elsewhere by its spelling.
    """
    raw = os.fsencode(path)
    pieces = [piece for piece in raw.split(b"/") if piece not in {b"", b"."}]
    if raw.startswith(b"/"):
        above = [piece for piece in os.fsencode(root).split(b"/") if piece]
        if pieces[: len(above)] != above:
            raise BadValue(f"{path[:200]!r} is not below the working directory {root}.")
        pieces = pieces[len(above) :]
    if b".." in pieces or b"\0" in raw or len(raw) > PATH_BYTES_MAX:
        raise BadValue(f"{path[:200]!r} is no path below the working directory {root}.")
    return b"/".join(pieces)


def shown(path: bytes) -> str:
    """A path for people and JSON: bytes that are no text are escaped."""
    return path.decode("utf-8", "backslashreplace")
