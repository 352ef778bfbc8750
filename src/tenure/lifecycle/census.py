"""The census: everything held, by owner, as data and as a tree of lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tenure.lifecycle.entry import CensusEntry

__all__ = ["CensusEntry", "count_by_kind", "tree_lines"]


def count_by_kind(entries: Iterable[CensusEntry]) -> dict[str, int]:
    """How many of each kind."""
    return dict(sorted(Counter(entry.kind for entry in entries).items()))


def tree_lines(entries: Iterable[CensusEntry]) -> list[str]:
    """One line per owner and per thing, indented by depth, owners in order of appearance."""
    lines: list[str] = []
    shown: set[str] = set()
    for entry in sorted(entries, key=lambda entry: entry.owner.split("/")):
        parts = entry.owner.split("/")
        for depth, part in enumerate(parts):
            path = "/".join(parts[: depth + 1])
            if path not in shown:
                shown.add(path)
                lines.append("  " * depth + part)
        pid = f" pid {entry.pid}" if entry.pid is not None else ""
        state = "" if entry.state == "held" else f" {entry.state}"
        text = f"{entry.kind} {entry.label}".strip()
        lines.append("  " * len(parts) + f"{text}{pid}{state} {entry.age_s:.1f} s")
    return lines
