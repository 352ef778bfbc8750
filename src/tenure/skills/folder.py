"""The folder of a skill, read whole: its files, their hash, and nothing from outside of it.

Links, devices and what is too large are refused, never followed or cut: the hash is of all that
the skill is. What is read is kept as it was read, so that what was judged is what is used.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tenure.errors import BadValue, NotFound
from tenure.skills.format import FILE, FILE_BYTES_MAX, Skill, read_skill

FILES_MAX = 200
BYTES_MAX = 5 * 1024 * 1024
DEPTH_MAX = 6
_SKIPPED = frozenset({".git", "__pycache__", ".DS_Store"})
"""No part of a skill."""


class File(msgspec.Struct, frozen=True):
    """One file of a skill."""

    content: bytes
    runs: bool
    """Whether it is marked as a program."""


class Folder(msgspec.Struct, frozen=True):
    """A skill with its files.

    Attributes:
        path: where it is.
        skill: what its SKILL.md says.
        files: by their path in it, sorted.
        digest: SHA-256 over the names, marks and contents of all files.
    """

    path: Path
    skill: Skill
    files: Mapping[str, File]
    digest: str

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(len(file.content) for file in self.files.values())


def read_folder(path: Path) -> Folder:
    """Read a skill. Blocks: for a thread, or a command.

    Raises:
        NotFound: there is no folder with a SKILL.md.
        BadValue: there is something in it that cannot be in a skill; says what.
    """
    try:
        top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotFound(f"There is no folder {path}.") from None
    except OSError as exc:
        raise BadValue(f"{path} is no folder that can be read: {exc.strerror}.") from None
    try:
        if FILE not in os.listdir(top):  # noqa: PTH208 - an open folder; said before all is read
            raise NotFound(f"{path} is no skill: there is no {FILE} in it.")
        files = dict(sorted(_files(top, path, "", _Room())))
    finally:
        os.close(top)
    if FILE not in files:  # taken away meanwhile
        raise NotFound(f"{path} is no skill: there is no {FILE} in it.")
    if len(files[FILE].content) > FILE_BYTES_MAX:
        raise BadValue(f"{path / FILE} is larger than {FILE_BYTES_MAX:,} bytes.")
    skill = read_skill(files[FILE].content, str(path / FILE))
    return Folder(path, skill, files, _digest(files))


class _Room:
    """What may still be read."""

    def __init__(self) -> None:
        self.files = FILES_MAX
        self.bytes = BYTES_MAX


def _files(folder: int, path: Path, below: str, room: _Room) -> Iterator[tuple[str, File]]:
    """All files below an open folder; names are relative to the skill."""
    if below.count("/") > DEPTH_MAX:
        raise BadValue(f"{path / below} lies deeper than {DEPTH_MAX} folders, which is the limit.")
    for name in sorted(os.listdir(folder)):
        if name in _SKIPPED:
            continue
        inside = f"{below}{name}"
        if not name.isprintable():
            raise BadValue(f"{path} holds a name that cannot be shown: {name[:40]!r}.")
        kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISDIR(kind):
            yield from _descend(folder, path, inside, room)
        elif stat.S_ISREG(kind):
            yield inside, _read(folder, path / inside, room)
        else:
            what = "a link" if stat.S_ISLNK(kind) else "neither file nor folder"
            raise BadValue(f"{path / inside} is {what}; a skill has files and folders only.")


def _descend(folder: int, path: Path, inside: str, room: _Room) -> Iterator[tuple[str, File]]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(os.path.basename(inside), flags, dir_fd=folder)  # noqa: PTH119 - with dir_fd
    except OSError as exc:
        raise BadValue(f"{path / inside} cannot be read: {exc.strerror}.") from None
    try:
        yield from _files(fd, path, f"{inside}/", room)
    finally:
        os.close(fd)


def _read(folder: int, path: Path, room: _Room) -> File:
    room.files -= 1
    if room.files < 0:
        raise BadValue(f"{path} is one file too many; a skill has at most {FILES_MAX}.")
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path.name, flags, dir_fd=folder), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise BadValue(f"{path} is no file any more.")
            content = file.read(room.bytes + 1)
    except OSError as exc:
        raise BadValue(f"{path} cannot be read: {exc.strerror}.") from None
    room.bytes -= len(content)
    if room.bytes < 0:
        raise BadValue(f"With {path} the skill has more than {BYTES_MAX:,} bytes.")
    return File(content, bool(found.st_mode & stat.S_IXUSR))


def _digest(files: Mapping[str, File]) -> str:
    whole = hashlib.sha256()
    for name, file in files.items():
        content = hashlib.sha256(file.content).hexdigest()
        whole.update(f"{name}\0{'x' if file.runs else '-'}\0{content}\n".encode("utf-8", "replace"))
    return whole.hexdigest()
