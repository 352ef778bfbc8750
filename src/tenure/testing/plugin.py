"""Pytest plugin: a test that leaves anything behind fails, in its teardown.

Compared before and after, around the test's own fixtures: asyncio tasks that are alive when their
loop closes, threads, open descriptors, child processes (zombies included), files in the temporary
directory, which is private to each test, and what is set for the whole process. Never-awaited
coroutines and other unraisable exceptions are pytest's own errors; the collection here makes them
appear in the right test.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from asyncio import runners
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvloop

_PROC = Path("/proc/self")
SETTLE_S = 15.0
"""How long a thread may take to end after its result was delivered, or a descriptor to close, on a
machine that has much else to do."""
LOOP_ROUNDS = 10
"""How many turns a loop gets before its tasks count as left over."""


@dataclass
class Snapshot:
    """What the process held at one instant."""

    threads: set[threading.Thread] = field(default_factory=set)
    fds: dict[int, str] = field(default_factory=dict)
    children: set[int] = field(default_factory=set)
    settings: dict[str, object] = field(default_factory=dict)

    @classmethod
    def take(cls) -> Snapshot:
        """Now."""
        return cls(set(threading.enumerate()), open_fds(), child_pids(), settings())


def open_fds() -> dict[int, str]:
    """Every open descriptor with what it leads to; empty where the system cannot tell."""
    found: dict[int, str] = {}
    folder = _PROC / "fd"
    if not folder.is_dir():
        return found
    for name in os.listdir(folder):  # noqa: PTH208 - its own descriptor is closed on return
        try:
            found[int(name)] = os.readlink(folder / name)  # noqa: PTH115 - not a path
        except OSError:
            continue  # the descriptor of the listing itself
    return found


def child_pids() -> set[int]:
    """Direct children, zombies included; empty where the system cannot tell."""
    found: set[int] = set()
    for listing in _PROC.glob("task/*/children"):
        try:
            found.update(map(int, listing.read_text().split()))
        except OSError:
            continue  # that thread has just ended
    return found


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)
_LIMITS = range(16)
"""Of `getrlimit`: those that Linux has, and where there are fewer, these."""
_PYTESTS_OWN = frozenset({"PYTEST_CURRENT_TEST", "TMPDIR"})


def settings() -> dict[str, object]:
    """What a process has once, whoever sets it: limits, environment, handlers and the like."""
    found: dict[str, object] = {
        "working directory": os.getcwd(),  # noqa: PTH109 - compared, not used
        "switch interval": sys.getswitchinterval(),
        "thresholds of the collector": gc.get_threshold(),
        "hook for exceptions": sys.excepthook,
    }
    for number in _LIMITS:
        with suppress(ValueError, OSError):
            found[f"limit {number}"] = resource.getrlimit(number)
    found.update((f"handler of {signum.name}", signal.getsignal(signum)) for signum in _SIGNALS)
    found.update((f"variable {k}", v) for k, v in os.environ.items() if k not in _PYTESTS_OWN)
    return found


class LeakCheck:
    """The plugin's state: one per pytest run."""

    def __init__(self) -> None:
        self.before: Snapshot | None = None
        self.tmp: Path | None = None
        self.tasks: list[str] = []
        self._cancel_all: Callable[[asyncio.AbstractEventLoop], None] | None = None

    def watch_loops(self) -> None:
        """Note the tasks that every `asyncio.Runner` would cancel silently when it closes."""
        original = self._cancel_all = runners._cancel_all_tasks  # type: ignore[attr-defined]  # noqa: SLF001

        def note_and_cancel(loop: asyncio.AbstractEventLoop) -> None:
            for _ in range(LOOP_ROUNDS):
                if asyncio.all_tasks(loop):
                    loop.run_until_complete(asyncio.sleep(0))
            self.tasks.extend(repr(task) for task in asyncio.all_tasks(loop))
            original(loop)

        runners._cancel_all_tasks = note_and_cancel  # type: ignore[attr-defined]  # noqa: SLF001

    def unwatch_loops(self) -> None:
        """Put things back."""
        if self._cancel_all is not None:
            runners._cancel_all_tasks = self._cancel_all  # type: ignore[attr-defined]  # noqa: SLF001

    def leftovers(self) -> list[str]:
        """What is there now and was not before, after giving it a moment to go."""
        tasks, self.tasks = self.tasks, []
        before, self.before = self.before, None
        if before is None:
            return []
        found = _left(before)
        if found:
            gc.collect()
        give_up = time.monotonic() + SETTLE_S
        while (found := _left(before)) and time.monotonic() < give_up:
            time.sleep(0.005)  # threads and the system are outside any clock of ours
        found += [f"task {task}" for task in tasks]
        if self.tmp is not None and self.tmp.is_dir():
            found += [f"temporary file {path.name}" for path in self.tmp.iterdir()]
        return found


def _left(before: Snapshot) -> list[str]:
    now = Snapshot.take()
    found = [f"thread {thread.name}" for thread in now.threads - before.threads]
    found += [
        f"descriptor {fd} -> {target}"
        for fd, target in now.fds.items()
        if fd > 2 and before.fds.get(fd) != target  # pytest itself swaps 0-2 between phases
    ]
    found += [f"child process {pid} {_comm(pid)}" for pid in now.children - before.children]
    found += [
        f"{name}: {now.settings.get(name)!r}, was {before.settings.get(name)!r}"
        for name in now.settings.keys() | before.settings.keys()
        if now.settings.get(name) != before.settings.get(name)
    ]
    return found


def _comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[0].partition("(")[2]
    except OSError:
        return "(gone)"


_KEY = pytest.StashKey[LeakCheck]()


def pytest_configure(config: pytest.Config) -> None:
    """Start watching."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background job ignores it, and so would every child that a test starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    uvloop.new_event_loop().close()  # libuv opens one pipe with its first loop, for good
    check = config.stash[_KEY] = LeakCheck()
    check.watch_loops()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop watching."""
    config.stash[_KEY].unwatch_loops()


@pytest.fixture(autouse=True)
def leak_check(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """Note what is there before the test, and give it a temporary directory of its own."""
    check = request.config.stash[_KEY]
    check.tmp = tmp_path_factory.mktemp("tmpdir")
    monkeypatch.setenv("TMPDIR", str(check.tmp))
    monkeypatch.setattr(tempfile, "tempdir", str(check.tmp))
    check.tasks = []
    check.before = Snapshot.take()
    yield
    gc.collect(1)  # what the test has made is young; pytest then sees its unraisable exceptions


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """When every fixture of the test is gone, nothing may be left of it."""
    result = yield
    found = item.config.stash[_KEY].leftovers()
    if found:
        pytest.fail("left behind: " + "; ".join(sorted(found)), pytrace=False)
    return result
