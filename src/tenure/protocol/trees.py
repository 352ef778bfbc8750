"""spawn_tree.*: what a client keeps of a finished tree of sub-agents, to be looked at again."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from tenure.protocol.params import ForSession, MaybeSession, Params

Wall = Annotated[float, msgspec.Meta(ge=0.0, le=1e10)]
"""Wall-clock seconds."""
AGENTS_MAX = 1_000
"""Sub-agents of one tree."""


class TreeSave(ForSession, kw_only=True):
    """Params of spawn_tree.save."""

    subagents: Annotated[list[dict[str, Any]], msgspec.Meta(min_length=1, max_length=AGENTS_MAX)]
    """As the client shows them; what is in them is its own business."""
    started_at: Wall | None = None
    finished_at: Wall | None = None
    label: Annotated[str, msgspec.Meta(max_length=400)] = ""


class TreeSaved(msgspec.Struct):
    """Result of spawn_tree.save."""

    path: str
    """What spawn_tree.load takes; a name, no path of a file."""
    session_id: str


class TreeList(MaybeSession, kw_only=True):
    """Params of spawn_tree.list."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 30
    cross_session: bool = False
    """Those of all sessions of the profile, too."""


class TreeRows(msgspec.Struct):
    """Result of spawn_tree.list: ``{path, session_id, label, count, started_at, finished_at}``."""

    entries: list[dict[str, Any]]


class TreeLoad(Params, kw_only=True):
    """Params of spawn_tree.load."""

    path: Annotated[str, msgspec.Meta(max_length=200)]


class Tree(msgspec.Struct, kw_only=True):
    """Result of spawn_tree.load, and what is kept."""

    session_id: str
    label: str
    started_at: float | None
    finished_at: float
    subagents: list[dict[str, Any]]


TREE_METHODS: dict[str, tuple[type[msgspec.Struct], Any, str]] = {
    "spawn_tree.save": (TreeSave, TreeSaved, "Keep a finished tree of sub-agents."),
    "spawn_tree.list": (TreeList, TreeRows, "The trees that are kept, the newest first."),
    "spawn_tree.load": (TreeLoad, Tree, "A tree that is kept."),
}
"""name -> (params, result, about)"""
