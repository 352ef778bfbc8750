"""Faults of the real server: the process is killed at the n-th point of a kind. In proof only.

A fault is ``KIND:N:WHOM``. Kinds are the moments that separate what the world knows from what the
process knows: before and after a commit of the database, before and after a child starts, before an
answer or an event is handed to the socket. WHOM is ``gateway`` (its guard lives) or ``both``. With
``count`` nothing is killed, and every kind is counted.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from tenure.processes.start import Start
from tenure.rpc.outbox import Outbox
from tenure.store.sqlite import SqliteStore

KINDS = ("before commit", "after commit", "before child", "after child", "before answer", "event")
passed: Counter[str] = Counter()
"""How often each kind of point was passed."""


class Fault(NamedTuple):
    """Where the process is killed."""

    kind: str
    n: int
    whom: str = "gateway"

    def __str__(self) -> str:
        return f"{self.kind}:{self.n}:{self.whom}"


def arm(text: str) -> None:
    """Have this process killed as `text` says, or count only."""
    kind, _, rest = text.partition(":")
    n, _, whom = rest.partition(":")
    fault = Fault(kind, int(n or 0), whom)

    def at(point: str) -> None:
        passed[point] += 1
        if point == fault.kind and passed[point] == fault.n:
            if fault.whom == "both":
                os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
            signal.pause()  # whichever thread this is, it goes no further

    def around(owner: type, name: str, before: str, after: str = "") -> None:
        plain: Callable[..., Any] = getattr(owner, name)

        def run(*args: Any, **kwargs: Any) -> Any:
            at(before)
            result = plain(*args, **kwargs)
            if after:
                at(after)
            return result

        setattr(owner, name, run)

    around(SqliteStore, "_commit", "before commit", "after commit")
    around(Start, "__call__", "before child", "after child")
    around(Outbox, "put_answer", "before answer")
    around(Outbox, "put_event", "event")
