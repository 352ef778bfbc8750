"""The places where Tenure meets chance that no port hides: new threads, random ids, files."""

from __future__ import annotations

import asyncio
import gc
import secrets
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from proof.loop import ExploringLoop
from tenure import ids
from tenure.lifecycle import threads


class _Thread:
    """Stands for `threading.Thread` while a loop of ours runs."""

    def __init__(self, *, target: Callable[[], object], name: str, daemon: bool) -> None:
        self._target, self._name = target, name
        del daemon

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ExploringLoop)
        loop.begin_thread(f"thread {self._name.removeprefix('tenure ')}", self._target)


class _Threading:
    Thread = _Thread


class _Secrets:
    @staticmethod
    def token_hex(count: int) -> str:
        loop = ExploringLoop.current  # threads make ids, too
        assert loop is not None
        return loop.new_hex(count)


_scratch: list[Path] = []


def scratch() -> Path:
    """One folder for all runs of a block; each run finds it as the first one did."""
    return _scratch[-1]


def _unheard(_: object) -> None:
    """What the remains of a killed process say while they are freed, nobody hears."""


@contextmanager
def seams() -> Iterator[None]:
    """For the length of the block threads are choice points, and ids are counted."""
    threads.threading = _Threading  # type: ignore[attr-defined, assignment]
    ids.secrets = _Secrets  # type: ignore[attr-defined, assignment]
    told, sys.unraisablehook = sys.unraisablehook, _unheard
    gc.freeze()  # what is loaded now stays; collecting what a run leaves is quick then
    try:
        with (
            tempfile.TemporaryDirectory(prefix="tenure-proof-") as folder,
            warnings.catch_warnings(),
        ):
            # A run that was given up leaves coroutines without a step.
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            _scratch.append(Path(folder))
            yield
    finally:
        gc.unfreeze()
        sys.unraisablehook = told
        _scratch.clear()
        threads.threading = threading  # type: ignore[attr-defined]
        ids.secrets = secrets  # type: ignore[attr-defined]
