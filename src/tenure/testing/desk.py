"""A place where tools work in a test: scopes, a working directory, real children."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenure.clock import Clock, SystemClock
from tenure.lifecycle.scope import Scope
from tenure.processes.spawn import Spawner
from tenure.tools.base import Tool, ToolContext, ToolResult


async def _nothing_found(_words: str, _limit: int) -> tuple[()]:
    return ()


class Desk:
    """A session's scope with one turn's below it. Its owner closes `root`.

    Args:
        base: an empty directory; ``work`` in it becomes the working directory.
        environ: the environment that children's few variables are picked from.
        clock: time.

    Attributes:
        cwd: the working directory.
        root, session, turn: the scopes.
        shown: live output of all calls.
        state: the session's per-tool state.
    """

    def __init__(self, base: Path, environ: Mapping[str, str], clock: Clock | None = None) -> None:
        self.base = base
        self.cwd = base / "work"
        self.cwd.mkdir()
        self.clock = clock or SystemClock()
        self.root = Scope.root("test", self.clock)
        self.session = self.root.child("session")
        self.turn = self.session.child("turn")
        self.spawner = Spawner(instance="test", environ=environ, clock=self.clock)
        self.shown: list[str] = []
        self.state: dict[str, Any] = {}

    def context(self) -> ToolContext:
        """The context of one call, whose id is as bad as a model may make it."""
        return ToolContext(
            session_id="s1", turn_id="t1", call_id="../c1", cwd=self.cwd, scope=self.turn,
            session=self.session, spawner=self.spawner, clock=self.clock,
            spill_dir=self.base / "spill", output=self.shown.append, state=self.state,
            find=_nothing_found,
        )  # fmt: skip

    async def call(self, tool: Tool, **arguments: object) -> ToolResult:
        """One call with these arguments."""
        return await tool.call(json.dumps(arguments), self.context())

    async def end_turn(self) -> None:
        """Close the turn's scope and open the next one's."""
        await self.turn.close()
        self.turn = self.session.child("turn")

    def leases(self) -> list[tuple[str, str]]:
        """Kind and label of everything held."""
        return [(entry.kind, entry.label) for entry in self.root.census()]
