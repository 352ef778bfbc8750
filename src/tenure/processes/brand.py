"""A mark that a child cannot take off: which gateway it descends from.

A label in the environment is lost by ``env -i``. A resource limit is inherited by every fork and
kept by every exec, and the limit on file locks has meant nothing to the kernel since 2.4.25 (see
getrlimit(2)), so its soft value can carry a number. The gateway sets it on itself; the next start
reads it from ``/proc/PID/limits``. It attributes, it does not contain: a child may change it.

Linux only, and only where those limits can be read; elsewhere the labels remain.
"""

from __future__ import annotations

import re
import resource

from tenure.processes.procfs import LINUX

RLIMIT_LOCKS = 10
"""Of Linux; the `resource` module does not name it."""
_INSTANCE = re.compile(r"[0-9a-f]{7}-[0-9a-f]{8}")
_LINE = b"Max file locks"


def wear(instance: str) -> bool:
    """Brand this process and all that it starts from now on.

    Args:
        instance: seven and eight hexadecimal digits, ``home-start``: 60 bits fit the limit.

    Returns:
        Whether the system took it.
    """
    if not LINUX or not _INSTANCE.fullmatch(instance):
        return False
    try:
        _, hard = resource.getrlimit(RLIMIT_LOCKS)
        resource.setrlimit(RLIMIT_LOCKS, (int(instance.replace("-", ""), 16), hard))
    except (OSError, ValueError):
        return False
    return True


def read_brand(pid: int) -> str:
    """The instance that `pid` descends from; "" if it has no brand or hides it."""
    try:
        with open(f"/proc/{pid}/limits", "rb", buffering=0) as file:  # noqa: PTH123 - not a path
            limits = file.readall()
    except OSError:
        return ""
    _, found, rest = limits.partition(_LINE)
    soft = rest.split(None, 1)[0] if found else b""
    if not soft.isdigit():
        return ""  # unlimited
    digits = f"{int(soft):015x}"
    return f"{digits[:-8]}-{digits[-8:]}"
