"""Keeping pages from eating the machine: renderers that grow too large are ended.

V8 has a limit of its own, but what a script keeps outside of its heap (buffers, images, documents)
counts there for nothing. So the host looks at what its renderers really hold. The end of a renderer
is the end of the pages in it, and of nothing else.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NamedTuple

from tenure.clock import Clock
from tenure.processes.procfs import Stat, all_stats, send_signal, with_descendants

EVERY_S = 1.0
_RENDERER = b"--type=renderer"


def _is_main(command: bytes) -> bool:
    return b"--remote-debugging-pipe" in command and b"--type=" not in command


class Held(NamedTuple):
    """A process of the browser and the bytes that it holds."""

    stat: Stat
    rss: int
    renderer: bool
    main: bool = False


def held_by(root_pid: int, main: Stat | None = None) -> list[Held]:
    """Everything below `root_pid`. Blocks for a few milliseconds.

    Args:
        root_pid: the host.
        main: the browser's own process: when a script that has started it ends, it is the child of
            somebody else, and still ours.
    """
    stats = all_stats()
    known = (main.pid, main.start_time) if main else None
    roots = [s for s in stats if s.pid == root_pid or (s.pid, s.start_time) == known]
    page = os.sysconf("SC_PAGE_SIZE")
    found = []
    for stat in with_descendants(roots, stats):
        try:
            at = Path("/proc") / str(stat.pid)
            rss = int((at / "statm").read_bytes().split()[1]) * page
            command = (at / "cmdline").read_bytes()
            found.append(Held(stat, rss, _RENDERER in command, _is_main(command)))
        except (OSError, IndexError, ValueError):
            continue  # it has just ended
    return found


def chromium(root_pid: int) -> Stat | None:
    """The browser's own process below `root_pid`; None if it is not there. Blocks.

    A script that stands before it has the same arguments: the innermost one is the browser.
    """
    return next((one.stat for one in reversed(held_by(root_pid)) if one.main), None)


def too_large(held: list[Held], page_bytes: int, total_bytes: int) -> list[Held]:
    """The renderers to end: each over its own limit, else the largest if all is too much. Pure."""
    renderers = sorted((one for one in held if one.renderer), key=lambda one: one.rss)
    over = [one for one in renderers if one.rss > page_bytes]
    if not over and renderers and sum(one.rss for one in held) > total_bytes:
        over = renderers[-1:]
    return over


async def watch_memory(clock: Clock, main: Stat | None, page_mib: int, total_mib: int) -> None:
    """End what grows too large, again and again. Cancellable."""
    while True:
        await clock.sleep(EVERY_S)
        for one in too_large(held_by(os.getpid(), main), page_mib << 20, total_mib << 20):
            send_signal(one.stat, signal.SIGKILL)
