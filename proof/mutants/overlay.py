"""A package in which one file differs: links to everything else, so that no tree is copied.

The folder stands first on the path of the test process and, through PYTHONPATH, of every Python
that it starts. The changed file says when it was executed, so a verdict is never one on the wrong
file.
"""

from __future__ import annotations

import os
from pathlib import Path

EXECUTED = "executed"
"""The file that stands in the folder once any process has executed the changed one."""


def lay(folder: Path, package: Path, file: str, text: str) -> None:
    """Make `folder`/`package.name` equal to `package`, except that `file` has `text`."""
    here, there = folder / package.name, package
    *parents, name = Path(file).parts
    for part in parents:
        _link(here, there, part)
        here, there = here / part, there / part
    _link(here, there, name)
    (here / name).write_text(text + _trace(folder / EXECUTED))


def _link(here: Path, there: Path, changed: str) -> None:
    """Fill `here` with links to what is in `there`, except `changed`."""
    here.mkdir()
    for entry in os.scandir(there):
        if entry.name not in {changed, "__pycache__"}:
            (here / entry.name).symlink_to(entry.path)
    compiled = there / "__pycache__"
    if compiled.is_dir():
        # Links one by one: a new one replaces its link and never the original.
        (here / "__pycache__").mkdir()
        for entry in os.scandir(compiled):
            if not entry.name.startswith(f"{changed.removesuffix('.py')}."):
                (here / "__pycache__" / entry.name).symlink_to(entry.path)


def _trace(mark: Path) -> str:
    return f"\n\ntry:\n    open({str(mark)!r}, 'a').close()\nexcept OSError:\n    pass\n"
