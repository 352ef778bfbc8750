"""Noticing a model that goes round in circles. Pure."""

from __future__ import annotations

from collections import Counter

Signature = tuple[str, str, str]
"""Name, arguments and result of a call."""


class Repeats:
    """Counts calls that gave the same result again, while nothing new happens between them.

    A step with any new call or result is progress and forgets the counts, so editing a file and
    running the same failing test again is no circle.

    Args:
        repeat_max: how often the same call may give the same result.
    """

    __slots__ = ("_counts", "_repeat_max", "_seen")

    def __init__(self, repeat_max: int) -> None:
        self._repeat_max = repeat_max
        self._seen: set[int] = set()
        self._counts: Counter[int] = Counter()

    def note(self, calls: list[Signature]) -> bool:
        """Take one step's calls. True when the turn should come to its end."""
        marks = {hash(call) for call in calls}  # results may be large; a collision costs one step
        if not marks <= self._seen:
            self._counts.clear()
        self._seen |= marks
        self._counts.update(marks)
        return any(self._counts[mark] >= self._repeat_max for mark in marks)
