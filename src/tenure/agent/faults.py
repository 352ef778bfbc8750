"""Logging a fault of ours without what it was about."""

from __future__ import annotations

import logging
import traceback

from tenure.errors import InternalError
from tenure.ids import new_id


def log_fault(log: logging.Logger, what: str, exc: BaseException) -> str:
    """Log where `exc` happened, and return the id under which the log has it.

    The exception's own words are left out: they may quote arguments, paths or outputs.
    """
    error_id = new_id("err")
    frames = "".join(traceback.format_tb(exc.__traceback__))
    log.error("%s failed inside (%s): %s\n%s", what, error_id, type(exc).__name__, frames)
    return error_id


def internal_error(log: logging.Logger, exc: BaseException) -> InternalError:
    """A fault of ours as an error with an id; the log has the rest under it."""
    error_id = new_id("err")
    log.error("%s: %s", error_id, exc, exc_info=exc)
    error = InternalError(
        f"Something failed inside the gateway (error {error_id}); see `tenure logs {error_id}`.",
        error_id=error_id,
    )
    error.__cause__ = exc
    return error
