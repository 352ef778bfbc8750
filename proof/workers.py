"""Processes that do pieces of work, and end when their owner does, wherever that is told.

A signal that becomes an exception is good for the owner alone: in a worker the code under test
might catch it, and go on.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.pool import Pool

PROCESSES = 2
ENDINGS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def workers(processes: int = PROCESSES, tasks_each: int | None = None) -> Iterator[Pool]:
    """Forks of this process, which are ended on leaving; their temporary files go with them.

    Args:
        processes: how many at a time.
        tasks_each: after how many tasks one is replaced by a new one.
    """
    with tempfile.TemporaryDirectory(prefix="tenure-proof-") as folder:
        # No signal comes between the start of a worker and the first thing that it does.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
        try:
            pool = multiprocessing.get_context("fork").Pool(
                processes, initializer=_begin, initargs=(folder,), maxtasksperchild=tasks_each
            )
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            raise
        with pool:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            yield pool


def _begin(folder: str) -> None:
    os.nice(1)
    tempfile.tempdir = folder
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a whole terminal: the owner ends its workers
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)
