"""A folder to lose, and a keeper of its checkpoints."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tenure.checkpoints.keeper import Asked, Checkpoints
from tenure.lifecycle.scope import Scope
from tenure.settings import CheckpointsConfig
from tenure.testing.clock import ManualClock

SESSION = "20260131_120000_0a1b2c3d"


def picture(root: Path) -> dict[str, tuple]:
    """Everything below `root`: kind, mode and content by path."""
    seen: dict[str, tuple] = {}
    for folder, folders, files in os.walk(root):
        for name in sorted(folders + files):
            path = Path(folder) / name
            st = path.lstat()
            what = (
                os.readlink(path)
                if stat.S_ISLNK(st.st_mode)
                else path.read_bytes()
                if stat.S_ISREG(st.st_mode)
                else b""
            )
            mode = 0 if stat.S_ISLNK(st.st_mode) else stat.S_IMODE(st.st_mode)
            seen[str(path.relative_to(root))] = (stat.S_IFMT(st.st_mode), mode, what)
    return seen


class Bench:
    """A folder with files, and its checkpoints."""

    def __init__(self, base: Path, scope: Scope, clock: ManualClock) -> None:
        self.base = base
        self.root = base / "work"
        self.scope = scope
        self.clock = clock
        self.limits = CheckpointsConfig()
        self.kept = base / "home" / "checkpoints"
        self.keeper = Checkpoints(self.kept, clock, lambda: self.limits, (base / "home",))

    def fill(self) -> None:
        deep = self.root / "a" / "b" / "c"
        deep.mkdir(parents=True)
        (self.root / "top.txt").write_text("top\n")
        (self.root / "a" / "run.sh").write_text("#!/bin/sh\necho hi\n")
        (self.root / "a" / "run.sh").chmod(0o755)
        (deep / "data.bin").write_bytes(os.urandom(70_000))
        (deep / "secret").write_text("s")
        (deep / "secret").chmod(0o600)
        (self.root / "a" / "b").chmod(0o750)
        (self.root / "link").symlink_to("a/run.sh")
        (self.root / "empty").mkdir()

    async def take(self, session: str = SESSION, turn: str = "turn_1"):
        asked = Asked(session_id=session, turn_id=turn, root=str(self.root), label="a prompt")
        return await self.keeper.take(self.scope, asked)

    async def restore(self, ref: str = "", path: str = "", **more):
        return await self.keeper.restore(self.scope, SESSION, ref, path, **more)

    async def diff(self, ref: str = "", path: str = ""):
        return await self.keeper.diff(self.scope, SESSION, ref, path)

    async def sweep(self, *existing: str):
        async def known(_named: list[str]) -> set[str]:
            return set(existing)

        return await self.keeper.sweep(self.scope, known)

    def blobs(self) -> int:
        """Bytes of everything that is kept."""
        return sum(p.stat().st_size for p in self.kept.rglob("*") if p.is_file())
