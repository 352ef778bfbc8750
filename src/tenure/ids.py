"""Identifiers: made here, checked here at the edge.

A session id is ``YYYYMMDD_HHMMSS_`` and 8 hex digits: it sorts by time, reads well in a list and
fits every grammar that a path, a URL or a client may have. Other ids are a prefix and random
letters. Ids from outside must pass `checked_session_id` before anything is built from them.
"""

from __future__ import annotations

import functools
import re
import secrets
import time

from tenure.errors import BadValue

SESSION_ID = re.compile(r"[0-9]{8}_[0-9]{6}_[0-9a-f]{8}")
NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")
_DIGITS = re.compile(r"[0-9]{1,15}")
_RESERVED = frozenset(
    ["con", "prn", "aux", "nul", *(f"{stem}{n}" for stem in ("com", "lpt") for n in range(1, 10))]
)


def new_session_id(wall_s: float) -> str:
    """A fresh session id.

    Args:
        wall_s: wall-clock time in seconds since the epoch.
    """
    return f"{_second(int(wall_s))}_{secrets.token_hex(4)}"


@functools.lru_cache(maxsize=4)
def _second(wall_s: int) -> str:
    return time.strftime("%Y%m%d_%H%M%S", time.gmtime(wall_s))


def new_id(prefix: str) -> str:
    """A fresh id ``prefix_xxxxxxxxxxxx`` (48 random bits)."""
    return f"{prefix}_{secrets.token_hex(6)}"


def whole_number(text: str) -> int | None:
    """The number that `text` is; None if it is none, or has over 15 digits.

    Never fails: what counts as a digit somewhere is not always one for `int`, nor is any length.
    """
    return int(text) if _DIGITS.fullmatch(text) else None


def checked_session_id(text: str) -> str:
    """Return `text` if it is a session id.

    Raises:
        BadValue: it is not; the message does not repeat unbounded input.
    """
    if SESSION_ID.fullmatch(text) is None:
        raise BadValue(
            f"{text[:40]!r} is no session id; ids look like 20260131_235959_0a1b2c3d "
            "(`tenure sessions list` shows them)."
        )
    return text


def checked_name(text: str, what: str) -> str:
    """Return `text` if it may name a file or a folder of ours on every platform.

    Args:
        text: the name as given.
        what: what is being named, for the message ("profile").

    Raises:
        BadValue: it may not.
    """
    if NAME.fullmatch(text) is None or text in _RESERVED:
        raise BadValue(
            f"{text[:40]!r} cannot name a {what}: use 1-64 of a-z, 0-9, '-' and '_', "
            "beginning and ending with a letter or digit."
        )
    return text
