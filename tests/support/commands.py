"""The `tenure` command as a child, in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TENURE = [sys.executable, "-c", "from tenure.cli.main import main; main()"]
PATIENCE_S = 45.0


@dataclass
class Place:
    """A home, a working directory, and the environment that a command gets: nothing of ours."""

    root: Path
    extra: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for folder in (self.work, self.user):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def user(self) -> Path:
        return self.root / "user"

    @property
    def env(self) -> dict[str, str]:
        return {
            **({"PYTHONPATH": path} if (path := os.environ.get("PYTHONPATH")) else {}),
            "PATH": os.environ["PATH"], "HOME": str(self.user), "TENURE_HOME": str(self.home),
            "TENURE_SANDBOX": "local",  # what commands do to this process is tested
            "LANG": "C.UTF-8", "TERM": "xterm-256color", "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
            **self.extra,
        }  # fmt: skip

    def script(self, *steps: Any, name: str = "script.json", **more: Any) -> str:
        """A file for the scripted model; the reference that names it."""
        path = self.root / name
        path.write_text(json.dumps({"steps": list(steps), **more}))
        return f"scripted:{path}"

    def config(self, text: str) -> None:
        self.home.mkdir(mode=0o700, exist_ok=True)
        (self.home / "config.toml").write_text(text)

    def popen(self, *args: str, **more: Any) -> subprocess.Popen[bytes]:
        options: dict[str, Any] = {
            "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
            "cwd": self.work, "env": self.env, "start_new_session": True, **more,
        }  # fmt: skip
        return subprocess.Popen([*TENURE, *args], **options)

    def run(self, *args: str, input: str | None = None, env: Mapping[str, str] = {}) -> Ran:  # noqa: A002
        """Run a command to its end."""
        done = subprocess.run(
            [*TENURE, *args], cwd=self.work, env={**self.env, **env}, capture_output=True, text=True,
            timeout=60, check=False,
            **({"stdin": subprocess.DEVNULL} if input is None else {"input": input}),
        )  # fmt: skip
        return Ran(list(args), done.returncode, done.stdout, done.stderr)


@dataclass
class Ran:
    """How a command ended."""

    args: Sequence[str]
    code: int
    out: str
    err: str

    def __post_init__(self) -> None:
        assert "Traceback" not in self.err + self.out, self.err

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    def rows(self) -> list[dict[str, Any]]:
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The one line that an error is."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        assert len(lines) == 1, self.err
        return lines[0]
