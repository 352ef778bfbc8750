"""A real `tenure serve` with its guard, as a child of the test."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from support.commands import PATIENCE_S, Place
from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.testing.gateway import TestClient
from tenure.transports.websocket_client import connect_websocket


class Served:
    """A gateway that listens. Made by `serving`."""

    def __init__(self, place: Place, process: subprocess.Popen[bytes]) -> None:
        self.place = place
        self.process = process
        line = read_line(process)
        assert line, f"serve said: {process.communicate()[1].decode()}"
        self.facts: dict[str, Any] = json.loads(line)
        self.url: str = self.facts["ready"]
        self.pid: int = self.facts["pid"]
        self.guard_pid: int = self.facts["guard_pid"]
        assert self.guard_pid == process.pid

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1].partition("/")[0])

    @property
    def token(self) -> str:
        return (self.place.home / "token").read_text()

    @property
    def attach_url(self) -> str:
        return f"{self.url}?token={self.token}"

    def stop(self) -> int:
        """Ask for a graceful end and wait for it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
            self.process.wait()
            kill_quietly(self.pid)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[TestClient]:
        """A connection."""
        scope = Scope.root("test client", SystemClock())
        try:
            transport = await connect_websocket(self.url, self.token)
            client = TestClient.open(transport, scope)
            assert isinstance(client, TestClient)
            await client.until("gateway.ready")
            yield client
        finally:
            await scope.close("test over")


@contextmanager
def serving(place: Place, *args: str, **more: Any) -> Iterator[Served]:
    """`tenure serve` on a free port; ended on leaving, gracefully if it still runs."""
    process = place.popen("serve", "--port", "0", "--json", *args, **more)
    served = None
    try:
        served = Served(place, process)
        yield served
    finally:
        if served is not None:
            served.stop()
        else:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


@contextmanager
def serving_with(place: Place, patch: str, *args: str) -> Iterator[Served]:
    """`serving`, in an interpreter that runs the code `patch` once the guard stands."""
    driver = place.root / "driver.py"
    driver.write_text(
        "import tenure.cli.serve as serving\nfrom tenure.cli.main import main\n"
        f"plain = serving.serve\ndef serve(args, guarded):\n    exec({patch!r}, {{}})\n"
        "    return plain(args, guarded)\nserving.serve = serve\nmain()\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(driver), "serve", "--port", "0", "--json", *args],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=place.work,
        env=place.env, start_new_session=True,
    )  # fmt: skip
    served = Served(place, process)
    try:
        yield served
    finally:
        for pid in (served.pid, served.guard_pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        served.stop()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def read_line(process: subprocess.Popen[bytes], patience_s: float = PATIENCE_S) -> bytes:
    """The next line of its stdout, or what there is when it ends."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], patience_s)
    assert ready, "it said nothing"
    return process.stdout.readline()


def wait_for(found: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
    """Poll for something outside this process."""
    give_up = time.monotonic() + patience_s
    while not (value := found()):
        assert time.monotonic() < give_up, f"{what}: not within {patience_s} s"
        time.sleep(0.01)
    return value


def promised(found: Callable[[], Any], what: str, promise_s: float) -> Any:
    """Poll for what comes within so many seconds on a machine that has nothing else to do."""
    value = in_time(found, promise_s)
    assert value, f"{what}: not within {promise_s} s of a machine of its own"
    return value


def in_time(found: Callable[[], Any], promise_s: float) -> Any:
    """What is found within so many seconds, or the last look.

    Where more wants to run than there are processors, it may come later in that proportion.
    """
    began, share = time.monotonic(), 1.0
    while not (value := found()):
        share = max(share, load())
        if time.monotonic() - began >= promise_s * share:
            break
        time.sleep(0.01)
    return value


def load() -> float:
    """How many want to run for each processor, now or in the last minute."""
    one, _, _, counts, _ = Path("/proc/loadavg").read_text().split()
    return max(float(one), float(counts.partition("/")[0])) / (os.cpu_count() or 1)


def kill_quietly(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def pids_with(mark: str, command: str = "") -> dict[int, str]:
    """Living processes with `mark` in command line, folder or environment, and their commands."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            argv = (entry / "cmdline").read_bytes()
            text = argv + b"\0" + (entry / "environ").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            text += os.fsencode(os.readlink(entry / "cwd"))
            if mark.encode() in text and state != "Z" and command.encode() in argv:
                found[int(entry.name)] = (
                    (entry / "cmdline").read_bytes().decode().replace("\0", " ")
                )
    return found
