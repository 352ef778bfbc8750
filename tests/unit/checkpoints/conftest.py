"""A folder to lose, and a keeper of its checkpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.checkpoints import Bench
from tenure.lifecycle.scope import Scope
from tenure.testing.clock import ManualClock


@pytest.fixture
async def bench(tmp_path) -> AsyncIterator[Bench]:
    clock = ManualClock()
    scope = Scope.root("test", clock)
    made = Bench(tmp_path, scope, clock)
    made.root.mkdir()
    made.fill()
    yield made
    await scope.close()
