"""The terminal client that nobody here wrote, unmodified, and what it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.commands import Place
from support.models import cache_folder
from support.terminal import Terminal, need, terminal

CLIENT = "hermes-agent==0.19.0"
ENTRY = "hermes_cli/tui_dist/entry.js"


@pytest.fixture(scope="session")
def client_entry(tmp_path_factory) -> Path:
    """The client's one file, downloaded once."""
    node = need("node", "nodejs (20 or newer)")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    assert int(version.strip("v\n").split(".")[0]) >= 20, (
        f"node {version} is older than 20; install nodejs 20"
    )
    entry = cache_folder() / CLIENT / "entry.js"
    if not entry.exists():
        folder = tmp_path_factory.mktemp("download")
        argv = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "-d",
            str(folder),
            CLIENT,
        ]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{CLIENT} cannot be downloaded with pip: {done.stderr[-500:]}"
        (wheel,) = folder.glob("*.whl")
        entry.parent.mkdir(exist_ok=True)
        part = entry.with_suffix(f".{os.getpid()}.part")
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(ENTRY) as source,
            part.open("wb") as copy,
        ):
            shutil.copyfileobj(source, copy)
        part.rename(entry)
    return entry


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def client(client_entry, place):
    """Open the client in a terminal: `with client(served) as term`."""

    @contextmanager
    def opened(
        served, *, resume: str = "", port: int = 0, env: dict[str, str] | None = None
    ) -> Iterator[Terminal]:
        own = place.root / "client"
        own.mkdir(exist_ok=True)
        url = served.attach_url.replace(f":{served.port}/", f":{port or served.port}/")
        named = {"HERMES_HOME": str(own), "HERMES_TUI_GATEWAY_URL": url}
        env = {**place.env, **named, **(env or {})}
        if resume:
            env["HERMES_TUI_RESUME"] = resume
        with terminal(["node", str(client_entry)], env=env, cwd=place.work) as term:
            term.shows_early = True
            yield term

    return opened
