"""Real tool servers, installed once into the user's cache of test things."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.needs import need

VERSION = "2026.8.31"
NAMES = ("everything", "filesystem", "memory")


@pytest.fixture(scope="session")
def npm_servers() -> Path:
    """The folder with their programs; skipped only where there is no npm."""
    need("npm")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "tenure-tests" / f"mcp-{VERSION}"
    programs = folder / "node_modules" / ".bin"
    if not all((programs / f"mcp-server-{name}").exists() for name in NAMES):
        folder.mkdir(parents=True, exist_ok=True)
        wanted = [f"@modelcontextprotocol/server-{name}@{VERSION}" for name in NAMES]
        argv = ["npm", "install", "--no-fund", "--no-audit", "--silent", *wanted]
        subprocess.run(argv, cwd=folder, check=True, timeout=300)
    return programs


SUITE = "0.1.16"


@pytest.fixture(scope="session")
def conformance() -> Path:
    """The program of the conformance suite; skipped only where there is no npm."""
    need("npm")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "tenure-tests" / f"mcp-conformance-{SUITE}"
    program = folder / "node_modules" / ".bin" / "conformance"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        wanted = f"@modelcontextprotocol/conformance@{SUITE}"
        argv = ["npm", "install", "--no-fund", "--no-audit", "--silent", wanted]
        subprocess.run(argv, cwd=folder, check=True, timeout=300)
    # What an older node lacks is used by another command of it only.
    text = program.resolve().read_text()
    if "globSync as o," in text:
        text = text.replace("globSync as o,", "", 1)
        text = text.replace("var he=Object", "const o=()=>[];var he=Object", 1)
        program.resolve().write_text(text)
    return program
