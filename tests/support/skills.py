"""Folders of skills for tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tenure.skills.folder import read_folder
from tenure.skills.shelf import Shelf


def write_skill(
    place: Path, name: str = "brew-tea", about: str = "Makes tea.", **files: str
) -> Path:
    """A skill in a folder of its name; `files` by their names, ``__`` for a dot, ``_in_`` for a slash."""
    folder = place / name
    folder.mkdir(parents=True, exist_ok=True)
    text = f"---\nname: {name}\ndescription: {about}\n---\n\nHeat the water first.\n"
    (folder / "SKILL.md").write_text(text)
    for key, content in files.items():
        path = folder / key.replace("_in_", "/").replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def trust(root: Path, folder: Path) -> None:
    """Consent to a skill as it is."""
    root.mkdir(parents=True, exist_ok=True)
    Shelf(root).consents.give_to(folder, read_folder(folder).digest)


def with_shelf(gateway: Any, root: Path) -> None:
    """Give the sessions of the default profile the skills below `root`."""
    root.mkdir(exist_ok=True)
    profiles = gateway.ports.profiles
    profiles.base = replace(profiles.base, shelf=Shelf(root))
