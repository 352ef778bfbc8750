"""Real tool servers, installed once into the user's cache of test things."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

VERSION = "2026.8.31"
NAMES = ("everything", "filesystem", "memory")


@pytest.fixture(scope="session")
def npm_servers() -> Path:
    """The folder with their programs; skipped only where there is no npm."""
    if shutil.which("npm") is None:
        pytest.skip("there is no npm here")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "tenure-tests" / f"mcp-{VERSION}"
    programs = folder / "node_modules" / ".bin"
    if not all((programs / f"mcp-server-{name}").exists() for name in NAMES):
        folder.mkdir(parents=True, exist_ok=True)
        wanted = [f"@modelcontextprotocol/server-{name}@{VERSION}" for name in NAMES]
        argv = ["npm", "install", "--no-fund", "--no-audit", "--silent", *wanted]
        subprocess.run(argv, cwd=folder, check=True, timeout=300)
    return programs
