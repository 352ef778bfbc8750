"""The thread that starts children.

A parent-death signal fires when the *thread* that spawned ends, so all children that live at one
time are started by one thread, which lives as long as any of them. With no child there is no
thread.
"""

from __future__ import annotations

import asyncio
import os
import queue
import subprocess
import threading
from collections.abc import Callable

from tenure.processes.procfs import LINUX

Started = tuple[subprocess.Popen[bytes], int | None]
Start = Callable[[], subprocess.Popen[bytes]]


class Launcher:
    """Counts what holds the thread: starts in progress and living children. Loop thread only."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] | None = None
        self._held = 0

    @property
    def starting_or_alive(self) -> int:
        """How many hold the thread now."""
        return self._held

    def launch(self, start: Start) -> asyncio.Future[Started]:
        """Run `start` in the thread; its child and a pidfd of it, both owned by the caller.

        On success the thread is held until `child_gone` is called.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Started] = loop.create_future()

        def settle(started: Started | None, error: Exception | None) -> None:
            if started is None or future.done():
                self.child_gone()
            if future.done():
                undo(started)  # the loop is shutting down and nobody waits any more
            elif started is None:
                future.set_exception(error or OSError("no process"))
            else:
                future.set_result(started)

        def run() -> None:
            started: Started | None = None
            error: Exception | None = None
            try:
                popen = start()
                try:
                    started = popen, os.pidfd_open(popen.pid) if LINUX else None
                except OSError:  # no descriptor is left: nobody could tell its end
                    undo((popen, None))
                    raise
            except Exception as exc:  # noqa: BLE001 - delivered to who waits
                error = exc
            try:
                loop.call_soon_threadsafe(settle, started, error)
            except RuntimeError:
                undo(started)  # the loop is closed

        self._held += 1
        if self._work is None:
            self._work = queue.SimpleQueue()
            threading.Thread(
                target=_serve, args=(self._work,), name="tenure launcher", daemon=True
            ).start()
        self._work.put(run)
        return future

    def child_gone(self) -> None:
        """A child has been reaped; the last one ends the thread."""
        self._held -= 1
        if self._held == 0 and self._work is not None:
            self._work.put(None)
            self._work = None


def undo(started: Started | None) -> None:
    """End a child that nobody takes, and close its pipes. Blocks until it is gone."""
    if started is not None:
        popen, pidfd = started
        with popen:  # which waits
            popen.kill()
        if pidfd is not None:
            os.close(pidfd)


def _serve(work: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while (run := work.get()) is not None:
        run()
