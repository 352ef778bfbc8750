"""How the next event is chosen.

None of them finds everything, so all of them are used: a random walk is quick where a fault is
common, PCT (random priorities, lowered at a few random moments) where a long detour of one actor is
needed, and the search with few deviations where the usual order is almost right.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from proof.options import Option

WEIGHTS = {"ready": 8.0, "outside": 2.0, "timer": 0.15, "fault": 0.3}
"""Of a random walk: mostly what is ready, or nothing would ever get far."""


STREAK_MAX = 200


class Walk:
    """Anything may come next, likelier what is ready. Each seed has its own tempo."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        tempo = self._random.choice((0.1, 0.5, 1.0, 3.0))
        time = self._random.choice((0.0, 0.0, 0.2, 1.0))
        self._weights = {
            "ready": WEIGHTS["ready"],
            "outside": WEIGHTS["outside"] * tempo,
            "timer": WEIGHTS["timer"] * time,
            "fault": WEIGHTS["fault"],
        }

    def choose(self, options: Sequence[Option]) -> int:
        """One of them, by weight."""
        weights = self._weights
        total = 0.0
        for option in options:
            total += weights[option.kind]
        at = self._random.random() * total
        for number, option in enumerate(options):
            at -= weights[option.kind]
            if at < 0:
                return number
        return 0


class Priorities:
    """PCT: every actor has a random priority, which is lowered at `changes` random moments.

    Args:
        seed: of the priorities and moments.
        changes: how many moments.
        length: of how many choices a schedule has, roughly.
    """

    def __init__(self, seed: int, changes: int = 3, length: int = 150) -> None:
        self._random = random.Random(seed)
        self._priorities: dict[tuple[str, str], float] = {}
        self._moments = {self._random.randrange(length) for _ in range(changes)}
        self._at = 0
        self._lowest = 0.0
        self._last: Option | None = None
        self._streak = 0

    def choose(self, options: Sequence[Option]) -> int:
        """The actor of the highest priority; its oldest event."""
        known = self._priorities
        for option in options:
            if option not in known:
                fault_or_time = option.kind in {"timer", "fault"}
                known[option] = self._random.random() * (0.3 if fault_or_time else 1.0)
        best = max(range(len(options)), key=lambda n: (known[options[n]], -n))
        again = options[best] == self._last
        self._streak, self._last = (self._streak + 1 if again else 0), options[best]
        # Whoever waits by asking again and again must not keep away what it waits for.
        tired = self._streak >= STREAK_MAX
        if self._at in self._moments or tired or options[best].kind in {"timer", "fault"}:
            self._lowest -= 1.0
            known[options[best]] = self._lowest
        self._at += 1
        return best


class Given:
    """These deviations and no others: {number of the choice: option}."""

    def __init__(self, deviations: dict[int, int]) -> None:
        self._deviations = deviations
        self._at = -1

    def choose(self, options: Sequence[Option]) -> int:
        """As given; 0 where the option does not exist."""
        self._at += 1
        chosen = self._deviations.get(self._at, 0)
        return chosen if chosen < len(options) else 0


class FewDeviations:
    """Every schedule with at most `bound` deviations, fewest first, each once.

    Ask for the next with `__next__`, run it, and say with `seen` what choices it had.
    """

    def __init__(self, bound: int, rnd: random.Random | None = None) -> None:
        self._bound = bound
        self._levels: list[list[dict[int, int]]] = [[{}], *([] for _ in range(bound))]
        self._random = rnd
        self._now: dict[int, int] = {}

    def __iter__(self) -> Iterator[dict[int, int]]:
        return self

    def __next__(self) -> dict[int, int]:
        for level in self._levels:
            if level:
                at = self._random.randrange(len(level)) if self._random else 0
                level[at], level[-1] = level[-1], level[at]
                self._now = level.pop()
                return self._now
        raise StopIteration

    @property
    def exhausted(self) -> bool:
        """Whether no schedule is left within the bound."""
        return not any(self._levels)

    def seen(self, widths: Sequence[int]) -> None:
        """The schedule that was given last had these widths: go one deviation further."""
        depth = len(self._now)
        if depth >= self._bound:
            return
        first = max(self._now, default=-1) + 1
        self._levels[depth + 1] += [
            {**self._now, place: option}
            for place in range(first, len(widths))
            for option in range(1, widths[place])
        ]
