"""Signals that ask a command to end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable

ECHO_S = 1.0
"""The same signal again within this time is the same asking: a service manager or a shell signals
the whole group, and the guard passes on what it got."""


def take_signals(
    signums: Iterable[signal.Signals], asked: Callable[[signal.Signals], object]
) -> None:
    """Have the running loop call `asked` for each asking, but for signals that are ignored (nohup).

    Ownership: the loop holds the handlers until it closes, or others replace them.
    """
    loop = asyncio.get_running_loop()
    heard: dict[signal.Signals, float] = {}

    def hear(signum: signal.Signals) -> None:
        now = loop.time()
        echo = now - heard.get(signum, -ECHO_S) < ECHO_S
        heard.setdefault(signum, now)
        if not echo:
            asked(signum)

    for signum in signums:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            loop.add_signal_handler(signum, hear, signum)
