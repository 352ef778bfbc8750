"""A fuzzer that sees which lines run (atheris, on libFuzzer), at the doors that are pure.

It is no part of what the tests need: a large package, wanted only by those who look for faults. It
takes the process that it runs in, so it has one of its own: this module as a program.
"""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PURE: dict[str, str] = {"codec": "tenure.protocol", "starter": "tenure.models.starter"}
"""Doors whose modules have ``problems_of(data)`` and ``SEEDS``, and the package that is watched."""
INPUT_BYTES_MAX = 4_096
PACKAGE = "atheris==3.0.0"


def guided(door: str, seed: int, count: int) -> int:
    """Try `count` inputs; what libFuzzer reaches it prints. 0 if nothing is violated."""
    if importlib.util.find_spec("atheris") is None:
        print(f"This needs {PACKAGE}; install it with: .venv/bin/pip install {PACKAGE}")
        return 2
    with tempfile.TemporaryDirectory(prefix="proof-") as folder:
        for n, text in enumerate(importlib.import_module(f"proof.fuzz.{door}").SEEDS):
            (Path(folder) / f"seed{n}").write_bytes(text)
        options = [f"-atheris_runs={count}", f"-seed={seed or 1}", f"-max_len={INPUT_BYTES_MAX}"]
        options.append(f"-artifact_prefix={folder}/")
        argv = [sys.executable, "-m", "proof.fuzz.guided", door, *options, folder]
        return subprocess.run(argv, check=False).returncode


def _run(door: str, options: list[str]) -> None:
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=[PURE[door]]):
        problems_of = importlib.import_module(f"proof.fuzz.{door}").problems_of

    def try_one(data: bytes) -> None:
        if found := problems_of(data):
            raise AssertionError(found[0])

    atheris.Setup([f"proof-{door}", *options], try_one)
    atheris.Fuzz()


if __name__ == "__main__":
    _run(sys.argv[1], sys.argv[2:])
