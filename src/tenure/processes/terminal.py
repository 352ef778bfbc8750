"""A pseudo-terminal for a child: its size, its controlling terminal, and keys that are signals.

The child gets the terminal as its controlling one without anything being run between fork and exec:
it leads a session of its own, and the first terminal that a session leader opens becomes its
controlling one. So a shell opens it by name, then becomes the program.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
from collections.abc import Sequence
from typing import NamedTuple

from tenure.processes.procfs import LINUX

_ACQUIRE = ': <>"$0"; exec "$@"'
_TIOCSIG = 0x40045436
"""Sends a signal to the foreground job of a terminal, from its other side; Linux 2.6.37 on."""
FROM_KEYS = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP})
"""Signals that keys send to the foreground job."""
CELLS_MAX = 1_000


class Screen(NamedTuple):
    """The size of a terminal, in characters; kept between 1 and 1,000."""

    columns: int = 80
    rows: int = 24

    def packed(self) -> bytes:
        """As the kernel takes it."""
        rows, columns = (min(max(1, n), CELLS_MAX) for n in (self.rows, self.columns))
        return struct.pack("HHHH", rows, columns, 0, 0)


def open_pair(screen: Screen) -> tuple[int, int]:
    """A new terminal of that size: our end and the child's. The caller owns both descriptors.

    Raises:
        OSError: the system has no terminal left.
    """
    ours, theirs = os.openpty()  # both close-on-exec
    try:
        fcntl.ioctl(ours, termios.TIOCSWINSZ, screen.packed())
    except OSError:
        os.close(ours)
        os.close(theirs)
        raise
    return ours, theirs


def acquiring(theirs: int, argv: Sequence[str]) -> list[str]:
    """`argv`, started so that the terminal `theirs` becomes its controlling one."""
    return ["/bin/sh", "-c", _ACQUIRE, os.ttyname(theirs), *argv]


class Terminal:
    """Our end of a child's terminal, for what is neither reading nor writing.

    Args:
        fd: our end; owned from here on, until `close`.
    """

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def resize(self, screen: Screen) -> bool:
        """Give it another size; the foreground job hears of it. False once it is closed."""
        if self._fd < 0:
            return False
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, screen.packed())
        return True

    def press(self, signum: int) -> bool:
        """Send what a key would send to the foreground job; whether that can be had here.

        The kernel refuses signals that no key sends.
        """
        if self._fd < 0 or not LINUX:
            return False
        try:
            fcntl.ioctl(self._fd, _TIOCSIG, signum)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Free it. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
