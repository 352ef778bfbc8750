"""The two places where Tenure meets chance that no port hides: new threads, and random ids."""

from __future__ import annotations

import asyncio
import secrets
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ExploringLoop)
        return loop.new_hex(count)


@contextmanager
def seams() -> Iterator[None]:
    """For the length of the block threads are choice points, and ids are counted."""
    threads.threading = _Threading  # type: ignore[attr-defined, assignment]
    ids.secrets = _Secrets  # type: ignore[attr-defined, assignment]
    try:
        with warnings.catch_warnings():
            # A run that was given up leaves coroutines without a step.
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            yield
    finally:
        threads.threading = threading  # type: ignore[attr-defined]
        ids.secrets = secrets  # type: ignore[attr-defined]
