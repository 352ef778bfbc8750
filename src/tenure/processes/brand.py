"""A mark that a child cannot take off: which gateway it descends from.

A label in the environment is lost by ``env -i``. A resource limit is inherited by every fork and
kept by every exec, and the limit on file locks has meant nothing to the kernel since 2.4.25 (see
getrlimit(2)), so its soft value can carry a number. The gateway sets it on itself; the next start
reads it from ``/proc/PID/limits``. It attributes, it does not contain: a child may change it.

The limit on resident memory has meant nothing since 2.4.30 either, so it carries the number of the
tree below a child: `numbered`, by the one thread that starts children. Programs that size their
buffers by it find it near the largest value there is.

Linux only, and only where those limits can be read; elsewhere the labels remain.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tenure.processes.procfs import LINUX, none_there

RLIMIT_LOCKS = 10
"""Of Linux; the `resource` module does not name it."""
_INSTANCE = re.compile(r"[0-9a-f]{7}-[0-9a-f]{8}")
_COUNT = re.compile(r"[0-9]{1,12}")
_NUMBERS = 1 << 60
"""Set in every number, so that it is none of the values that people use."""


@dataclass(frozen=True, slots=True)
class Worn:
    """A brand that this process wears."""

    value: int
    before: int

    def take_off(self) -> None:
        """Wear what was worn before, unless another has been put on since."""
        soft, hard = resource.getrlimit(RLIMIT_LOCKS)
        if soft == self.value:
            resource.setrlimit(RLIMIT_LOCKS, (self.before, hard))


def wear(instance: str) -> Worn | None:
    """Brand this process and all that it starts from now on.

    Args:
        instance: seven and eight hexadecimal digits, ``home-start``: 60 bits fit the limit.

    Returns:
        None: the system did not take it. Ownership: the caller takes it off.
    """
    if not LINUX or not _INSTANCE.fullmatch(instance):
        return None
    try:
        soft, hard = resource.getrlimit(RLIMIT_LOCKS)
        worn = Worn(int(instance.replace("-", ""), 16), soft)
        resource.setrlimit(RLIMIT_LOCKS, (worn.value, hard))
    except (OSError, ValueError):
        return None
    return worn


COUNT_BITS = 28
"""Of a number; those above are the starter's own."""


def number_of(mark: str, count: int) -> int:
    """The number of a tree.

    Args:
        mark: of whoever starts it: eight hexadecimal digits.
        count: how many were started before, and this one.
    """
    return int(mark, 16) << COUNT_BITS | count & ((1 << COUNT_BITS) - 1)


def number_in(label: str, mark: str) -> int:
    """The number of the tree that a label names; 0: none of this mark.

    Whoever can set its own environment can write any label: nothing in one may be relied on.

    Args:
        label: ``instance/owner/mark-count``.
        mark: see `number_of`.
    """
    whose, _, count = label.rpartition("/")[2].partition("-")
    return number_of(mark, int(count)) if whose == mark and _COUNT.fullmatch(count) else 0


@contextmanager
def numbered(number: int) -> Iterator[None]:
    """What is started within has `number`, and all that descends from it.

    Args:
        number: under 2**60; only the thread that starts children may set it.
    """
    try:
        before = resource.getrlimit(resource.RLIMIT_RSS)
        resource.setrlimit(resource.RLIMIT_RSS, (_NUMBERS | number, before[1]))
    except (OSError, ValueError):
        yield  # the system does not take it: labels remain
        return
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_RSS, before)


def read_number(pid: int) -> int:
    """The number of the tree that `pid` belongs to; 0 if it has none or hides it."""
    soft = _soft(pid, b"Max resident set")
    return soft & (_NUMBERS - 1) if soft & _NUMBERS and not soft >> 61 else 0


def read_brand(pid: int) -> str:
    """The instance that `pid` descends from; "" if it has no brand or hides it."""
    soft = _soft(pid, b"Max file locks")
    if not soft:
        return ""
    digits = f"{soft:015x}"
    return f"{digits[:-8]}-{digits[-8:]}"


def _soft(pid: int, line: bytes) -> int:
    """A soft limit; 0 where it is unlimited or cannot be read."""
    try:
        with open(f"/proc/{pid}/limits", "rb", buffering=0) as file:  # noqa: PTH123 - not a path
            limits = file.readall()
    except OSError as exc:
        none_there(exc)
        return 0
    _, found, rest = limits.partition(line)
    soft = rest.split(None, 1)[0] if found else b""
    return int(soft) if soft.isdigit() else 0
