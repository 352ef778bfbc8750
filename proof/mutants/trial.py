"""One trial: a fork of this warmed process runs the tests that must fail.

Two processes a trial. The *keeper* adopts whatever the tests leave running, holds the time limit
and ends everything at the end, so that a mutant that leaks processes leaks none of them here. Its
child forgets the package, and imports it through the overlay; in a sitting, where tests have
imported it, the functions that differ get their other code instead (`swap.py`).
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NoReturn

from proof.mutants import overlay, swap
from proof.mutants.table import ROOT, SOURCE, Mutant

Verdict = Literal["killed", "survived", "hung", "skipped", "not executed", "broken", "apart"]
"""Only the first is good. `apart`: to be tried by itself, over an import of its own. `hung`: no
limit of the test's own ended it. `skipped`: a real part is missing here. `not executed`: nothing
ran the changed file. `broken`: no test could be run."""

WARM = (
    "hypothesis", "sqlalchemy", "sqlalchemy.dialects.sqlite", "alembic", "msgspec", "httpx",
    "uvicorn", "uvloop", "websockets", "typer", "rich.console", "prompt_toolkit", "psutil",
    "tree_sitter", "tree_sitter_bash", "selectolax", "mcp", "asyncssh", "PIL.Image", "pypdf",
    "pytest", "_hypothesis_pytestplugin", "pytest_asyncio.plugin", "pytest_timeout",
    "_pytest.pytester",
)  # fmt: skip
"""Imported once, before the forks, and before the package itself."""

RESULT = "result.json"
OUTPUT = "output"
PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant."""

    verdict: Verdict
    by: str = ""
    """The test that noticed."""
    why: str = ""
    """What it said, in a line."""
    seconds: float = 0.0


End = Callable[[Outcome], NoReturn]
Body = Callable[[Mutant, Path, End], NoReturn]
"""What a trial does over its overlay in the folder; it ends with what it has found."""


def warm() -> None:
    """Import what every trial needs, so that each fork has it."""
    os.environ["TENURE_TESTS_PATIENCE"] = "12"  # most of these tests fail, many by waiting in vain
    for name in WARM:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    swap.warm()


def new_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for one trial; its name is short, since sockets stand in it. The caller ends it."""
    return tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True)


def start(
    mutant: Mutant, body: Body, folder: Path, limit_s: float, *, collected: bool = False
) -> int:
    """Fork a trial of `mutant`; the pid of its keeper.

    When that has ended, `outcome(folder)` says the rest, and nothing that the trial has started
    is alive. SIGTERM ends it early.

    Args:
        mutant: what is tried.
        body: what runs over it.
        folder: an empty one, for this trial.
        limit_s: how long it may take.
        collected: whether there are tests in this process that have imported the package, so
            that it cannot be imported anew.
    """
    if not collected:  # else what a test starts has the original, and whatever that lets survive
        overlay.lay(folder, SOURCE, mutant.file, mutant.applied())  # is tried again by itself
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _keep(lambda: _run(mutant, body, folder, collected), folder, limit_s)
    return pid


def outcome(folder: Path) -> Outcome:
    """What the trial in `folder` has found."""
    try:
        found = Outcome(**json.loads((folder / RESULT).read_text()))
    except FileNotFoundError:
        said = (folder / OUTPUT).read_text(errors="replace").splitlines()
        return Outcome("broken", why=said[-1] if said else "it ended without a word")
    if not (folder / overlay.EXECUTED).exists() and found.verdict in {"survived", "killed"}:
        return Outcome("not executed", found.by, found.why, found.seconds)
    return found


def _keep(run: Callable[[], NoReturn], folder: Path, limit_s: float) -> NoReturn:
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = os.fork()
    if child == 0:
        run()
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))
    if not select.select([os.pidfd_open(child)], [], [], limit_s)[0]:
        write(folder, Outcome("hung", why=f"not over after {limit_s:g} s", seconds=limit_s))
    _end_descendants()
    os._exit(0)


def _end_descendants() -> None:
    """Kill what is below this process until nothing is, adopted orphans included."""
    while True:
        for pid in _children(os.getpid()):
            _kill_tree(pid)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _kill_tree(pid: int) -> None:
    below = list(_children(pid))
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    for child in below:
        _kill_tree(child)


def _children(pid: int) -> Iterator[int]:
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            yield from map(int, listing.read_text().split())


def write(folder: Path, found: Outcome) -> None:
    """Leave the outcome where `outcome` finds it, whole or not at all."""
    part = folder / f"{RESULT}.part"
    part.write_text(json.dumps(asdict(found)))
    part.rename(folder / RESULT)


def _run(mutant: Mutant, body: Body, folder: Path, collected: bool) -> NoReturn:
    def end(found: Outcome) -> NoReturn:
        write(folder, found)
        os._exit(0)

    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # not the runner's
    try:
        settle_in(folder)
        if not collected:
            swap.forget()
        elif swap.swap(mutant):
            (folder / overlay.EXECUTED).touch()
        else:
            end(Outcome("apart"))
        body(mutant, folder, end)
    except BaseException:  # noqa: BLE001 - it ends here, and says why
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(1)


def settle_in(folder: Path) -> None:
    """Let this process, and what it starts, see the overlay in `folder`, and write there."""
    output = os.open(folder / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    silence = os.open(os.devnull, os.O_RDONLY)
    for fd, target in ((silence, 0), (output, 1), (output, 2)):
        os.dup2(fd, target)
    os.close(output)
    os.close(silence)
    os.chdir(ROOT)
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = str(folder)
    # A missing part is said, and is never taken for a kill.
    os.environ.pop("TENURE_TESTS_REAL", None)
    importlib.invalidate_caches()
