"""A place for every sandbox: scopes, a working directory, a home of the user and one of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.boxes import Ground


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    ground = Ground(tmp_path)
    yield ground
    await ground.session.close()
    await ground.root.close()
