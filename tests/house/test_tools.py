"""The tools keep the rules: format, lint, strict types, layers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent


def run(root: Path, *argv: str) -> None:
    done = subprocess.run(
        [str(BIN / argv[0]), *argv[1:]], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(argv)}:\n{done.stdout[-6000:]}{done.stderr[-2000:]}"


def test_lint(root):
    run(root, "ruff", "check", "--no-cache", "src", "tests", "proof")


def test_format(root):
    run(root, "ruff", "format", "--no-cache", "--check", "src", "tests", "proof")


@pytest.mark.slow
@pytest.mark.timeout(1_200)  # half a minute of computing when nothing is known from before
def test_types(root):
    run(root, "mypy")


def test_layers(root):
    run(root, "lint-imports", "--no-cache")
