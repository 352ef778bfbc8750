"""What the house tests look at: the files of the project, parsed once."""

from __future__ import annotations

import ast
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Source:
    """One Python file of ours."""

    path: Path
    name: str
    text: str
    tree: ast.Module

    def at(self, node: ast.AST) -> str:
        return f"{self.name}:{getattr(node, 'lineno', 1)}"


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


def parsed(folder: str) -> list[Source]:
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        text = path.read_text()
        found.append(Source(path, str(path.relative_to(ROOT)), text, ast.parse(text)))
    assert found
    return found


@pytest.fixture(scope="session")
def sources() -> list[Source]:
    """Every file of the package."""
    return parsed("src")


@pytest.fixture(scope="session")
def written(sources) -> list[Source]:
    """Every file that is held to the rules of style: the package and its proof."""
    return [*sources, *parsed("proof")]


@pytest.fixture(scope="session")
def committed() -> list[Path]:
    """Every file that is, or is about to be, in the repository; all of them without git."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, check=False,
    )  # fmt: skip
    if listed.returncode != 0:
        return [path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts]
    names = listed.stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]
