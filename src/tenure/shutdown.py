"""How long a graceful stop takes: all of it in one place, a pure function of the configuration.

    mark       what runs is marked as cut off; one write, nothing waited for
    sessions   all sessions end in parallel: turns store what they have, then resources are freed
    rows       what has not ended by then is ended in the store, in one write
    rest       connections, providers, children, the store; in reverse of their making
    kill       after this a service manager may kill us; longer than all of the above together

A second signal skips all of it: what was marked is found at the next start.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tenure.config import ServerConfig

SESSIONS_SHARE = 0.6
ROWS_SHARE = 0.1
KILL_MARGIN_S = 10.0
"""For what happens outside: the guard ends what is left, the interpreter exits."""


class Budget(NamedTuple):
    """Seconds."""

    sessions_s: float
    rows_s: float
    rest_s: float
    kill_s: int
    """Whole seconds: the kill time of the service unit."""

    @property
    def total_s(self) -> float:
        """All phases together."""
        return self.sessions_s + self.rows_s + self.rest_s


def budget(server: ServerConfig) -> Budget:
    """The phases of a stop under this configuration; they sum up to ``server.shutdown_s``."""
    total = server.shutdown_s
    sessions, rows = total * SESSIONS_SHARE, total * ROWS_SHARE
    kill = total + max(KILL_MARGIN_S, total / 4)
    return Budget(sessions, rows, total - sessions - rows, math.ceil(kill))
