"""What a call to a tool server lends and brings; light, so that it is there before the SDK is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple


class Lost(Exception):  # noqa: N818 - never leaves this package
    """The connection ended under a request."""


class Asked(NamedTuple):
    """A question to a person."""

    question: str
    choices: tuple[str, ...] = ()


Ask = Callable[[Asked], Awaitable[str | None]]
"""Asks it; None: nobody answered."""


class Outcome(NamedTuple):
    """What a call gave."""

    text: str
    is_error: bool = False


@dataclass(slots=True, eq=False)
class Caller:
    """A call that runs, and what it lends to the server meanwhile.

    Attributes:
        tell: takes a line of progress.
        ask: asks the person; None: there is nobody.
        asking: questions that are open now.
        moved: there was news since that was last looked at.
    """

    tell: Callable[[str], None]
    ask: Ask | None = None
    asking: int = 0
    moved: bool = False
