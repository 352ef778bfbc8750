"""A desk for every test of a tool."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenure.testing.desk import Desk


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path, dict(os.environ))
    yield desk
    await desk.root.close()
