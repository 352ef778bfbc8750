"""`tenure skills`: what there is, what it holds, and which of a project's skills count."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tenure.agent.instructions import project_of, upward
from tenure.cli.attach import Where
from tenure.cli.sure import is_sure
from tenure.errors import BadValue, ConfigError, Conflict, NotFound
from tenure.skills.folder import Folder, read_folder
from tenure.skills.format import FILE, is_name
from tenure.skills.shelf import Entry, Shelf


def _shelf(where: Where) -> Shelf:
    return Shelf(where.own.root)


def _folders(where: Where) -> tuple[Path, ...]:
    home = Path(where.environ.get("HOME") or "/")
    return project_of(tuple(upward(where.cwd, home)), home)


def entries_here(where: Where) -> tuple[Entry, ...]:
    """All skills of the profile and of the project here, those that count first."""
    return _shelf(where).find(_folders(where))


def list_skills(where: Where, *, as_json: bool) -> int:
    """A line for each skill, and why one does not count."""
    entries = entries_here(where)
    if as_json:
        rows = [msgspec.to_builtins(entry) for entry in entries]
        sys.stdout.write(json.dumps(rows, ensure_ascii=False, indent=1) + "\n")
        return 0
    for entry in entries:
        about = f"not used: {entry.problem}" if entry.problem else entry.description
        sys.stdout.write(f"{entry.name:<24} {entry.source:<8} {about}\n")
        mark = f"  sha256:{entry.digest}" if entry.digest else ""
        sys.stdout.write(f"    {entry.path}{mark}\n")
    if not entries:
        sys.stderr.write("There are none; `tenure skills install PATH` copies one.\n")
    if not where.loaded.config.skills.enabled:
        sys.stderr.write("[skills] enabled = false: sessions use none of them.\n")
    return 0


def show_skill(where: Where, name: str) -> int:
    """A skill with its manifest, whether it counts or not."""
    entry = next((entry for entry in entries_here(where) if entry.name == name), None)
    if entry is None:
        raise NotFound(f"There is no skill {name[:80]!r}; `tenure skills list` shows them.")
    folder = read_folder(Path(entry.path))
    if entry.problem:
        sys.stderr.write(f"not used: {entry.problem}\n")
    sys.stdout.write(manifest(folder) + f"\n\n{folder.skill.body}\n")
    return 0


def manifest(folder: Folder) -> str:
    """What a skill says of itself, its files and its hash."""
    skill = folder.skill
    facts = {
        "name": skill.name,
        "about": skill.description,
        "license": skill.license,
        "needs": skill.compatibility,
        "tools": " ".join(skill.allowed_tools),
        **{f"{key[:20]}": value for key, value in skill.metadata.items()},
        "folder": str(folder.path),
        "sha256": folder.digest,
        "files": f"{len(folder.files)}, {folder.size:,} bytes",
    }
    lines = [f"{key:<10} {_line(value)}" for key, value in facts.items() if value]
    for name, file in folder.files.items():
        mark = "  program" if file.runs else ""
        lines.append(f"  {len(file.content):>9,}  {name}{mark}")
    return "\n".join(lines)


def _line(text: str) -> str:
    """Without anything that a terminal would take for more than text."""
    return "".join(char if char.isprintable() else " " for char in text)


def install_skill(where: Where, path: Path, *, sha256: str, replace: bool, yes: bool) -> int:
    """Show it, ask, copy what was read."""
    folder = read_folder(_of(path))
    name = folder.skill.name
    sys.stdout.write(manifest(folder) + "\n")
    sys.stdout.flush()
    if sha256 and sha256.removeprefix("sha256:").lower() != folder.digest:
        raise BadValue(f"Its hash is {folder.digest}, not the one that was asked for.")
    target = _shelf(where).own / name
    if os.path.lexists(target) and not replace:
        raise Conflict(f"There is a skill {name} already; replace it with --replace.")
    why = "Whoever installs a skill agrees with what it says; say so with --yes."
    if not is_sure(f"Install {name}?", yes=yes, why=why):
        return 1
    where.own.prepare()
    _copy(folder, target)
    sys.stderr.write(f"{name} is installed; sessions that begin from now on have it\n")
    return 0


def _of(path: Path) -> Path:
    return path.absolute().parent if path.name == FILE else path.absolute()


def _copy(folder: Folder, target: Path) -> None:
    """Write what was read, beside; then put it into its place."""
    part, old = (target.with_name(f".{target.name}.{word}") for word in ("part", "old"))
    try:
        target.parent.mkdir(mode=0o700, exist_ok=True)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=0o700)
        for name, file in folder.files.items():
            place = part / name
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.write_bytes(file.content)
            place.chmod(0o700 if file.runs else 0o600)
        if os.path.lexists(target):
            shutil.rmtree(old, ignore_errors=True)
            target.rename(old)
        part.rename(target)
        _discard(old)
    except OSError as exc:
        raise ConfigError(f"{target} cannot be written: {exc.strerror or exc}.") from None


def _discard(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def remove_skill(where: Where, name: str, *, yes: bool) -> int:
    """Remove one of the profile's."""
    target = _shelf(where).own / name
    if not is_name(name) or not os.path.lexists(target):
        raise NotFound(
            f"The profile has no skill {name[:80]!r}; `tenure skills list` shows them. Those of a "
            "project are its own files; `tenure skills distrust` lets them count no more."
        )
    if not is_sure(f"Remove {name} from {target.parent}?", yes=yes):
        return 1
    _discard(target)
    sys.stderr.write(f"{name} is removed\n")
    return 0


def trust_skills(where: Where, paths: Sequence[Path], *, yes: bool) -> int:
    """Consent to what was shown."""
    waiting = [Path(e.path) for e in entries_here(where) if e.source == "project" and e.problem]
    folders = [read_folder(_of(where.cwd / path)) for path in paths or waiting]
    if not folders:
        sys.stderr.write("No skill of this project waits for consent.\n")
        return 0
    sys.stdout.write("\n\n".join(manifest(folder) for folder in folders) + "\n")
    sys.stdout.flush()
    why = "Whoever trusts a skill agrees with what it says; say so with --yes."
    names = ", ".join(folder.skill.name for folder in folders)
    if not is_sure(f"Let {names} count, as shown?", yes=yes, why=why):
        return 1
    where.own.prepare()
    for folder in folders:
        _shelf(where).consents.give_to(folder.path, folder.digest)
    sys.stderr.write(f"trusted, as it is now: {names}\n")
    return 0


def distrust_skills(where: Where, paths: Sequence[Path]) -> int:
    """Take consent back; 1 if there was none."""
    consents = _shelf(where).consents
    known = [Path(e.path) for e in entries_here(where) if e.source == "project"]
    taken = [path for path in (_of(where.cwd / p) for p in paths or known) if consents.take(path)]
    for path in taken:
        sys.stdout.write(f"{path}\n")
    sys.stderr.write("they count no more\n" if taken else "None of them was trusted.\n")
    return 0 if taken else 1
