"""Ask before something that cannot be undone."""

from __future__ import annotations

import sys

from tenure.errors import BadValue

CANNOT_BE_UNDONE = "Deleting cannot be undone; agree with --yes."


def is_sure(question: str, *, yes: bool, why: str = CANNOT_BE_UNDONE) -> bool:
    """Whether somebody agrees.

    Args:
        question: ends with a question mark.
        yes: agreed to already.
        why: it has to be agreed to, and how; said where nobody can be asked.

    Raises:
        BadValue: nobody can be asked.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise BadValue(why)
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
