"""Chromium itself, on pages served on loopback."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.chromium import World
from support.needs import need
from tenure.testing.model_server import ModelServer


@pytest.fixture
async def world() -> AsyncIterator[World]:
    need("chromium")
    folder = Path(
        tempfile.mkdtemp(prefix="t-", dir="/tmp")
    )  # short: Chromium makes sockets below it
    async with ModelServer() as server:
        world = World(server, folder)
        yield world
        await world.aclose()
    left = os.listdir(folder)
    shutil.rmtree(folder)
    assert left == []
