"""Children for the tests of processes: real ones, waited for through pidfds and pipes."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from support.served import in_time
from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.processes.spawn import Spawner

BOUND_S = 30.0
"""No wait of a test takes longer; a passing one takes milliseconds."""


class Watched:
    """A process of which only the pid is known: pinned at once, so that its end can be awaited."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.fd = os.pidfd_open(pid)

    def gone(self, seconds: float = BOUND_S) -> bool:
        """Wait for its end (a zombie has ended)."""
        poller = select.poll()
        poller.register(self.fd, select.POLLIN)
        return bool(in_time(lambda: poller.poll(0), seconds))

    @property
    def runs(self) -> bool:
        return not self.gone(0)


@pytest.fixture
def watch() -> Iterator[Callable[[int], Watched]]:
    """Pin a pid."""
    made: list[Watched] = []

    def pin(pid: int) -> Watched:
        made.append(Watched(pid))
        return made[-1]

    yield pin
    for watched in made:
        os.close(watched.fd)


@pytest.fixture
async def world() -> AsyncIterator[Scope]:
    """A root scope on the machine's clock: children live in real time."""
    scope = Scope.root("world", SystemClock())
    yield scope
    report = await scope.close("test over", patience_s=BOUND_S)
    assert report.clean, report


@pytest.fixture
def spawner(world: Scope) -> Spawner:
    return Spawner(instance="inst1", environ=os.environ, clock=world.clock)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Run a Python script as an independent process, ended (with its group) after the test."""
    made: list[subprocess.Popen[bytes]] = []

    def run(source: str, *args: str, **options: object) -> subprocess.Popen[bytes]:
        script = tmp_path / f"script{len(made)}.py"
        script.write_text(source)
        process = subprocess.Popen(
            [sys.executable, str(script), *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            **options,  # type: ignore[call-overload]
        )
        made.append(process)
        return process

    yield run
    for process in made:
        if process.poll() is None:
            process.kill()
        process.wait(BOUND_S)
        process.stdin.close()
        process.stdout.close()
