"""Ask before something that cannot be undone."""

from __future__ import annotations

import sys

from tenure.errors import BadValue


def is_sure(question: str, *, yes: bool) -> bool:
    """Whether somebody agrees.

    Args:
        question: ends with a question mark.
        yes: agreed to already.

    Raises:
        BadValue: nobody can be asked.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise BadValue("Deleting cannot be undone; agree with --yes.")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
