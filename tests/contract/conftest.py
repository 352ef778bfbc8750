"""What the contracts are held against."""

from __future__ import annotations

import pytest

from tenure.store.sqlite import open_sqlite, prepare
from tenure.testing.store import MemoryStore


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    """Each kind of store, empty."""
    if request.param == "memory":
        made = MemoryStore()
    else:
        path = tmp_path / "t.db"
        made = open_sqlite(path, prepare(path, tmp_path / "backups"))
    yield made
    await made.aclose()
