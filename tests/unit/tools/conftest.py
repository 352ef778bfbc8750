"""A session's scope, a working directory and a context for calls."""

from __future__ import annotations

import json
import os

import pytest

from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.processes.spawn import Spawner
from tenure.tools.base import ToolContext


class Desk:
    """Where tools work in a test.

    Attributes:
        cwd: the working directory.
        shown: live output.
        turn, session: the scopes.
    """

    def __init__(self, tmp_path, clock=None):
        self.base = tmp_path
        self.cwd = tmp_path / "work"
        self.cwd.mkdir()
        self.clock = clock or SystemClock()
        self.root = Scope.root("test", self.clock)
        self.session = self.root.child("session")
        self.turn = self.session.child("turn")
        self.spawner = Spawner(instance="test", environ=dict(os.environ), clock=self.clock)
        self.shown: list[str] = []
        self.state = {}

    def context(self) -> ToolContext:
        return ToolContext(
            session_id="s1", turn_id="t1", call_id="../c1", cwd=self.cwd, scope=self.turn,
            session=self.session, spawner=self.spawner, clock=self.clock,
            spill_dir=self.base / "spill", output=self.shown.append, state=self.state,
        )  # fmt: skip

    async def call(self, tool, **arguments):
        return await tool.call(json.dumps(arguments), self.context())

    async def end_turn(self):
        await self.turn.close()
        self.turn = self.session.child("turn")

    def leases(self):
        return [(entry.kind, entry.label) for entry in self.root.census()]


@pytest.fixture
async def desk(tmp_path):
    desk = Desk(tmp_path)
    yield desk
    await desk.root.close()
