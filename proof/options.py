"""What can happen next, and who decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

Kind = Literal["ready", "outside", "timer", "fault"]


class Option(NamedTuple):
    """One thing that can happen next; `actor` is the same for all that one task or source does."""

    kind: Kind
    actor: str


class Strategy(Protocol):
    """Decides what happens next."""

    def choose(self, options: Sequence[Option]) -> int:
        """The number of the option; 0 is the usual order."""


class Usual:
    """No deviation at all."""

    def choose(self, options: Sequence[Option]) -> int:
        """The first."""
        del options
        return 0
