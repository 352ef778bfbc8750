"""What is checked and settled before a session opens."""

from __future__ import annotations

import os
from pathlib import Path

from tenure.errors import NotFound, Overloaded
from tenure.glance import Glance
from tenure.paths import is_folder, named

SPARE_DESCRIPTORS = 8
"""Descriptors that must be free before more work is admitted."""


def model_ref(provider: str, model: str) -> str:
    """A model reference from a provider and a name, either of which may be empty."""
    return f"{provider}:{model}" if provider and model and ":" not in model else model


def check_descriptors() -> None:
    """Refuse while file descriptors are nearly exhausted, before anything is half done.

    Raises:
        Overloaded: naming the limit.
    """
    opened: list[int] = []
    try:
        for _ in range(SPARE_DESCRIPTORS):
            opened.append(os.dup(2))  # noqa: PERF401 - each must be closed if a later one fails
    except OSError as exc:
        raise Overloaded(
            "File descriptors are exhausted, so nothing new is admitted; close sessions or raise "
            "the limit (ulimit -n)."
        ) from exc
    finally:
        for fd in opened:
            os.close(fd)


class WorkingDirectories:
    """Where new sessions may work: folders that exist. One look at each in a turn of the loop.

    Args:
        default: for whoever names none.
    """

    def __init__(self, default: Path) -> None:
        self.default = default
        self._seen: Glance[dict[str, str]] = Glance(dict)

    def checked(self, given: str) -> str:
        """The working directory of a session.

        Raises:
            NotFound: it is no folder.
        """
        seen = self._seen()
        if given not in seen:
            seen[given] = self._look_at(given)
        return seen[given]

    def _look_at(self, given: str) -> str:
        path = named(given) if given else self.default
        if not path.is_absolute() or not is_folder(path):
            raise NotFound(
                f"The working directory {given[:200]!r} is no folder (give an absolute path)."
            )
        return str(path)
