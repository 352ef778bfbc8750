"""How commands end: one rule for all of them. A table of it stands in docs/operations.md."""

from __future__ import annotations

from typing import Any

from tenure import errors
from tenure.errors import TenureError

DONE, FAILED, USAGE, DENIED, INTERRUPTED = 0, 1, 2, 3, 130
_USAGE = (
    errors.BadValue, errors.ConfigError, errors.InvalidParams, errors.ModelUnauthorized,
    errors.NotFound, errors.SandboxUnavailable, errors.TooLarge, errors.Unauthorized,
)  # fmt: skip
"""What was asked for, or how things are configured, cannot be: the same command fails again until
one of the two is changed."""
_USAGE_CODES = {kind.code for kind in (*_USAGE, errors.SessionNotFound)}


def code_of(error: TenureError) -> int:
    """The exit code of a command that an error ended."""
    return USAGE if isinstance(error, _USAGE) else FAILED


def code_of_turn(complete: dict[str, Any]) -> int:
    """The exit code of a command whose one turn ended so.

    Args:
        complete: the payload of its message.complete.
    """
    match complete["state"]:
        case "completed":
            return DENIED if complete.get("denied") else DONE
        case "interrupted":
            return INTERRUPTED
        case "refused":
            return DENIED
        case _:
            return USAGE if complete.get("code") in _USAGE_CODES else FAILED
