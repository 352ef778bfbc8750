"""Which skills there are for a working directory, and which of them count.

Those in the profile's folder are the user's own. Those that a project brings count only after
consent to that very content; before that nothing of them is read but the folder's name.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from tenure.consent import Consents
from tenure.errors import BadValue, NotFound, TenureError
from tenure.skills.folder import Folder, read_folder
from tenure.skills.format import FILE, is_name

OWN = "skills"
"""In the folder of a profile."""
PLACES = (".tenure/skills", ".agents/skills", ".claude/skills")
"""In a project: below the working directory, and below the root of its repository."""
TRUST_FILE = "skills-trusted.json"
SKILLS_MAX = 64
"""Of one place, and in all; the others are told of, and not used."""
CATALOG_CHARS_MAX = 8_000
SHORT_CHARS = 160
"""Of a description where they are too many to stand there in full."""
_ABOUT = """

Skills are instructions for certain kinds of tasks. When a task fits one, call the tool skill with \
its name before you begin, and follow it."""

Source = Literal["profile", "project"]
Seen = tuple[tuple[str, int, int, int], ...]


class Entry(msgspec.Struct, frozen=True):
    """A skill as it is listed.

    Attributes:
        name: what it is called.
        description: what it is for; empty where nothing of it may be read.
        source: whose it is.
        path: its folder.
        digest: of its content, if that was read.
        problem: why it does not count; empty: it does.
    """

    name: str
    description: str
    source: Source
    path: str
    digest: str = ""
    problem: str = ""


class _Place(NamedTuple):
    path: Path
    source: Source
    text: str
    """The path."""


class Shelf:
    """The skills of one profile, and of the projects that its sessions work in. Stateless.

    Args:
        root: the profile's folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.own = root / OWN
        self.consents = Consents(root / TRUST_FILE)

    def look(self, folders: Sequence[Path]) -> Seen:
        """What tells whether `find` would find anything else than before; some stats.

        Args:
            folders: the working directory, and the root of its repository.
        """
        seen: list[tuple[str, int, int, int]] = []
        for place in self._places(folders):
            if _stamp(seen, place.text):
                for folder in _folders(place):
                    _stamp(seen, f"{folder}/{FILE}")
        if seen:
            _stamp(seen, str(self.consents.path))
        return tuple(seen)

    def find(self, folders: Sequence[Path]) -> tuple[Entry, ...]:
        """All skills, those that count and those that do not, and why. Reads: for a thread.

        A name is used once: the profile's before a project's, the innermost first.
        """
        found: dict[str, Entry] = {}
        others: list[Entry] = []
        for place in self._places(folders):
            for folder in _folders(place):
                entry = self._entry(place, folder)
                if not entry.problem and len(found) == SKILLS_MAX:
                    entry = _but(entry, f"there are more than {SKILLS_MAX}")
                if not entry.problem and entry.name in found:
                    entry = _but(entry, f"another one of that name is {found[entry.name].path}")
                if entry.problem:
                    others.append(entry)
                else:
                    found[entry.name] = entry
        return (*sorted(found.values(), key=lambda e: e.name), *others)

    def load(self, name: str, folders: Sequence[Path]) -> Folder:
        """A skill that counts, as it is now. Reads: for a thread.

        Raises:
            NotFound: there is none of that name.
            BadValue: it does not count, or cannot be read.
        """
        problem = ""
        for place in self._places(folders):
            for path in (path for path in _folders(place) if path.name == name):
                try:
                    return self._read(place, path)
                except TenureError as exc:
                    problem = problem or exc.message
        if problem:
            raise BadValue(f"The skill {name} cannot be used: {problem}")
        raise NotFound(f"There is no skill {name[:80]!r}.")

    def _entry(self, place: _Place, path: Path) -> Entry:
        try:
            folder = self._read(place, path)
        except TenureError as exc:
            return Entry(path.name, "", place.source, str(path), problem=exc.message.rstrip("."))
        about = folder.skill.description
        return Entry(path.name, about, place.source, str(path), folder.digest)

    def _read(self, place: _Place, path: Path) -> Folder:
        """A skill that counts: what was judged is what was read.

        Raises:
            BadValue, NotFound: it does not count.
        """
        known = self.consents.of(path) if place.source == "project" else ""
        if place.source == "project" and not known:
            raise BadValue(f"It waits for consent (tenure skills trust {path}).")
        folder = read_folder(path)
        if known and folder.digest != known:
            raise BadValue(f"It has changed since consent (tenure skills trust {path}).")
        if folder.skill.name != path.name:
            raise BadValue(f"It calls itself {folder.skill.name}, but its folder {path.name}.")
        return folder

    def _places(self, folders: Sequence[Path]) -> tuple[_Place, ...]:
        return _places_of(self.own, tuple(folders))


@functools.lru_cache(maxsize=64)
def _places_of(own: Path, folders: tuple[Path, ...]) -> tuple[_Place, ...]:
    """Where to look, in order. Kept: paths take longer to make than to look at."""
    mine = _Place(own, "profile", str(own))
    paths = [folder / name for folder in folders for name in PLACES]
    return mine, *(_Place(path, "project", str(path)) for path in paths)


def _but(entry: Entry, problem: str) -> Entry:
    return msgspec.structs.replace(entry, problem=problem)


def _stamp(seen: list[tuple[str, int, int, int]], path: str) -> bool:
    """Note when `path` has changed; whether it is there."""
    try:
        found = os.stat(path)  # noqa: PTH116 - half the time of Path.stat, and many are looked at
    except OSError:
        return False
    seen.append((path, found.st_mtime_ns, found.st_size, found.st_ino))
    return True


def _folders(place: _Place) -> list[Path]:
    """What of a place can be a skill. A place of a project that is reached by a link is none."""
    path = place.path
    try:
        if place.source == "project" and (path.is_symlink() or path.parent.is_symlink()):
            return []
        with os.scandir(path) as entries:
            names = sorted(entry.name for entry in entries if is_name(entry.name))
    except OSError:
        return []
    return [path / name for name in names[:SKILLS_MAX]]


def catalog(entries: Sequence[Entry]) -> str:
    """What the system text says of the skills that count; nothing where there are none."""
    usable = [entry for entry in entries if not entry.problem]
    if not usable:
        return ""
    whole = sum(len(entry.name) + len(entry.description) + 4 for entry in usable)
    chars = None if whole <= CATALOG_CHARS_MAX else SHORT_CHARS
    lines, room = [_ABOUT], CATALOG_CHARS_MAX
    for at, entry in enumerate(usable):
        line = f"- {entry.name}: {_cut(entry.description, chars)}"
        room -= len(line)
        if room < 0:
            lines.append(f"- and {len(usable) - at} more: {', '.join(e.name for e in usable[at:])}")
            break
        lines.append(line)
    return "\n".join(lines)


def _cut(text: str, chars: int | None) -> str:
    return text if chars is None or len(text) <= chars else f"{text[: chars - 1].rstrip()}…"


def waiting(entries: Sequence[Entry]) -> str:
    """What is to be told of those that do not count; empty: nothing."""
    others = [entry for entry in entries if entry.problem]
    if not others:
        return ""
    first = others[0]
    more = f" (and {len(others) - 1} more)" if len(others) > 1 else ""
    return f"The skill {first.name} is not used{more}: {first.problem}."
