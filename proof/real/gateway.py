"""A real ``tenure serve`` under proof: its process, its home, and how it is seen from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from proof.real.wire import Wire

PATIENCE_S = 60.0
ROOT = Path(__file__).resolve().parents[2]
OPEN_ROWS = {
    "sessions": "SELECT count(*) FROM sessions WHERE status = 'open'",
    "turns": "SELECT count(*) FROM turns WHERE state IN ('queued', 'running')",
    "approvals": "SELECT count(*) FROM approvals WHERE decision = ''",
    "leases": "SELECT count(*) FROM leases WHERE key LIKE 'session:%' AND holder <> ''",
}


class Held(NamedTuple):
    """What a gateway holds, seen from outside; equal to the baseline when nothing is left."""

    fds: int
    threads: int
    children: int
    tasks: int
    files: int
    rows: int
    census: int

    def more_than(self, other: Held) -> dict[str, int]:
        """What has grown, by how much."""
        pairs = zip(self._fields, self, other, strict=True)
        return {name: mine - its for name, mine, its in pairs if mine > its}


class Gateway:
    """A gateway that serves. Made by `serving`."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.process = process
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"serve did not start: {(folder / 'stderr').read_text()[-2000:]}")
        facts = json.loads(line)
        self.url: str = facts["ready"]
        self.pid: int = facts["pid"]
        self.token = (self.home / "token").read_text()

    async def wire(self) -> Wire:
        """A connection."""
        return await Wire.open(self.url, self.token)

    def ask(self, command: str) -> Any:
        """Have the probe within the gateway answer; see `proof/real/probe.py`."""
        answer = self.folder / "probe.answer"
        answer.unlink(missing_ok=True)
        (self.folder / "probe.ask").write_text(command)
        os.kill(self.pid, signal.SIGUSR2)
        give_up = time.monotonic() + PATIENCE_S
        while not answer.exists():
            if time.monotonic() > give_up:
                raise TimeoutError(f"the probe did not answer {command!r}")
            time.sleep(0.005)
        return json.loads(answer.read_text())

    def children(self) -> list[int]:
        """Its children now."""
        return _children(self.pid)

    def rss_bytes(self, *, trim: bool = True) -> int:
        """Resident bytes of the gateway itself, after the allocator gave back what it could."""
        if trim:
            self.ask("trim")
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def held(self, census: int = 0) -> Held:
        """What it holds now.

        Args:
            census: how many entries the wire told, where that was asked.
        """
        base = Path(f"/proc/{self.pid}")
        inside = self.ask("count")
        return Held(
            fds=len([*(base / "fd").iterdir()]), threads=len([*(base / "task").iterdir()]),
            children=len(_children(self.pid)), tasks=inside["tasks"],
            files=sum(1 for _ in self._temporary()), rows=sum(self.open_rows().values()),
            census=census,
        )  # fmt: skip

    def _temporary(self) -> Iterator[Path]:
        """Files that belong to what runs, and not to what is kept of a session."""
        yield from (self.folder / "tmp").rglob("*")
        yield from (self.home / "boxes").rglob("*")
        yield from self.home.rglob("*.part*")

    def query(self, statement: str) -> list[Any]:
        """Ask its database, which goes on being written meanwhile."""
        with sqlite3.connect(
            f"file:{self.home}/tenure.db?mode=ro", uri=True, timeout=20
        ) as database:
            found = database.execute(statement).fetchall()
        database.close()
        return found

    def open_rows(self) -> dict[str, int]:
        """Rows of what has not ended, by table."""
        return {name: self.query(statement)[0][0] for name, statement in OPEN_ROWS.items()}

    def stop(self) -> int:
        """Ask for a graceful end; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            self.kill()

    def gone(self, patience_s: float) -> None:
        """Wait until guard and gateway have ended by themselves; by force after `patience_s`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience_s)
        self.kill()

    def kill(self) -> None:
        """SIGKILL for gateway and guard."""
        for pid in (self.pid, self.process.pid):
            if self.process.poll() is None:
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # that thread has just ended
            found += map(int, listing.read_text().split())
    return found


def left_of(gateway: Gateway) -> list[str]:
    """What still runs of a gateway that has ended, by the folder in its environment."""
    mark, found = os.fsencode(gateway.folder), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environ, line = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if mark + b"/home" in environ and line:
            found.append(f"{entry.name} {line.decode(errors='replace')}".replace("\0", " "))
    return found


def environment(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Of a gateway whose everything is in `folder`."""
    return {
        "PATH": os.environ["PATH"], "HOME": str(folder / "user"), "LANG": "C.UTF-8",
        "TENURE_HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"),
        "TENURE_SANDBOX": "local", "PROOF_PROBE": str(folder), "PYTHONPATH": str(ROOT), **more,
    }  # fmt: skip


def write_script(folder: Path, steps: Sequence[Any], **more: Any) -> str:
    """A script of the scripted model; the reference that names it."""
    path = folder / "script.json"
    path.write_text(json.dumps({"steps": list(steps), "loop": True, **more}))
    return f"scripted:{path}"


@contextmanager
def serving(
    folder: Path, model: str, config: str = "", env: Mapping[str, str] | None = None
) -> Iterator[Gateway]:
    """A gateway with a probe in it, in `folder`; ended on leaving, by force if need be."""
    for name in ("user", "tmp", "home"):
        (folder / name).mkdir(mode=0o700, exist_ok=True, parents=True)
    if config:
        (folder / "home/config.toml").write_text(config)
    command = [sys.executable, "-m", "proof.real.probe", "serve", "--port", "0", "--json",
               "--model", model]  # fmt: skip
    with (folder / "stderr").open("ab") as errors:
        process = subprocess.Popen(
            command, env=environment(folder, env or {}), cwd=folder / "user",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
        )  # fmt: skip
    gateway = None
    try:
        gateway = Gateway(folder, process)
        yield gateway
    finally:
        if gateway is not None:
            gateway.stop()
        else:  # not ready yet
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
