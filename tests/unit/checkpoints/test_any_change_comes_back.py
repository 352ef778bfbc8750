"""Whatever is done to a folder, a restore brings it back, and its undo brings that back."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from support.checkpoints import picture

NAMES = ["a", "b", "c", "été", "sp ace", "-dash", "x" * 60]
MODES = [0o644, 0o600, 0o755, 0o440, 0o666]


def grow(root: Path, dice: random.Random, count: int) -> None:
    """Files, folders and links at random places."""
    for _ in range(count):
        folders = [root, *(p for p in root.rglob("*") if p.is_dir() and not p.is_symlink())]
        path = dice.choice(folders) / dice.choice(NAMES)
        if path.is_symlink() or path.exists():
            continue
        kind = dice.random()
        if kind < 0.35:
            path.mkdir(mode=dice.choice([0o755, 0o700, 0o750]))
        elif kind < 0.45:
            path.symlink_to(dice.choice(["a", "../b", "/etc", "nowhere"]))
        else:
            path.write_bytes(dice.randbytes(dice.choice([0, 1, 100, 5_000])))
            path.chmod(dice.choice(MODES))


def harm(root: Path, dice: random.Random) -> None:
    """One thing that a command may do."""
    there = sorted(root.rglob("*"))
    if not there:
        return grow(root, dice, 3)
    path = dice.choice(there)
    deed = dice.choice(["remove", "rewrite", "chmod", "rename", "folder", "file", "link", "grow"])
    if deed == "grow":
        return grow(root, dice, 3)
    if deed == "chmod" and not path.is_symlink():
        return path.chmod(dice.choice([0o700, 0o755]) if path.is_dir() else dice.choice(MODES))
    if deed == "rewrite" and path.is_file() and not path.is_symlink():
        path.chmod(0o644)
        return path.write_bytes(dice.randbytes(100)) and None
    if deed == "rename":
        new = path.with_name(f"{path.name}2")
        return None if new.exists() else path.rename(new) and None
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    if deed == "folder":
        path.mkdir()
        (path / "inner").write_text("new")
    elif deed == "file":
        path.write_text("now a file")
    elif deed == "link":
        path.symlink_to("/")
    return None


@pytest.mark.parametrize("seed", range(40))
async def test_it_comes_back(bench, seed):
    dice = random.Random(seed)
    shutil.rmtree(bench.root)
    bench.root.mkdir()
    grow(bench.root, dice, 40)
    before = picture(bench.root)
    await bench.take()
    for _ in range(dice.randrange(1, 15)):
        harm(bench.root, dice)
    changed = picture(bench.root)
    done = await bench.restore(remove_new=True)
    assert not done.outcome.problems and picture(bench.root) == before
    back = await bench.restore(done.undo.id, remove_new=True)
    assert not back.outcome.problems and picture(bench.root) == changed
    assert not (await bench.diff(done.undo.id)).changes
    left = list(bench.root.rglob(".tenure-restore-*"))
    assert not left and os.listdir(bench.kept / "restoring") == []
