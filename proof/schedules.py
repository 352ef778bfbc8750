"""One scenario, one schedule: run it, see what the oracles say, and find the shortest way there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from proof.loop import ExploringLoop, Violation
from proof.options import Strategy
from proof.strategies import Given
from proof.tokens import Token, pack
from tenure.errors import TenureError

SHRINK_RUNS = 400
"""Runs that shrinking may cost."""


class Scenario(NamedTuple):
    """Something that races.

    Attributes:
        name: in tokens and tables.
        about: what it is about, for people.
        run: the whole of it on a loop: set-up, race, and the oracles at rest.
        share: how many schedules it gets of a budget, against others.
        faults: how many faults may happen in one schedule.
        subject: what it belongs to (lifecycle, pairs, shared, programs).
    """

    name: str
    about: str
    run: Callable[[ExploringLoop], Coroutine[Any, Any, None]]
    share: float = 1.0
    faults: int = 0
    subject: str = "lifecycle"


class Outcome(NamedTuple):
    """What one schedule came to.

    Attributes:
        violation: what does not hold; empty if all does.
        choices, widths: of the schedule; see `ExploringLoop`.
        steps: how many there were.
        story: what happened, if it was to be told.
    """

    violation: str
    choices: list[int]
    widths: list[int]
    steps: int
    story: list[str]

    @property
    def deviations(self) -> dict[int, int]:
        """Where it left the usual order."""
        return {place: chosen for place, chosen in enumerate(self.choices) if chosen}


class _Faults(logging.Handler):
    """Faults of ours, which are logged with a traceback where they are caught."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        # What is ours to say (a refusal, time that is up, a process that dies) is no fault.
        ours = isinstance(error, (TenureError, TimeoutError, GeneratorExit))
        ours = ours and not record.getMessage().startswith("task 'close ")  # nothing may cut that
        dying = ExploringLoop.current is None or ExploringLoop.current.dying
        if error is not None and not dying and not ours and not hasattr(error, "planned"):
            self.seen.append(f"{record.getMessage()}: {error!r}")


def run(scenario: Scenario, strategy: Strategy, token: Token, *, tell: bool = False) -> Outcome:
    """Run one schedule. The seams must be in place."""
    told: list[str] | None = [] if tell else None
    make: Any = ExploringLoop  # files, sockets and signals it has none
    loop: ExploringLoop = make(strategy, mode=token.mode, faults=token.faults, story=told)
    caught, violation = _Faults(), ""
    log = logging.getLogger("tenure")
    log.addHandler(caught)
    propagates, log.propagate = log.propagate, False
    try:
        loop.run(scenario.run(loop))
    except Violation as exc:
        violation = str(exc) or "a violation without words"
    except Exception as exc:  # noqa: BLE001 - whatever escapes a scenario is a finding
        violation = f"the scenario ended with {exc!r}"
    if loop.violations:
        violation = loop.violations[0]  # what came after it only follows
    if not violation and caught.seen:
        violation = f"a fault inside: {caught.seen[0]}"
    if not violation and loop.complaints:
        violation = loop.complaints[0]
    if violation or loop.has_dead:
        loop.abandon()  # what it says while it goes, nobody need hear
    log.removeHandler(caught)
    log.propagate = propagates
    if violation and told is not None:
        told.append(f"=> {violation}")
    return Outcome(violation, loop.choices, loop.widths, loop.steps, told or [])


def replay(scenario: Scenario, token: Token, *, tell: bool = False) -> Outcome:
    """Run the schedule of a token again."""
    return run(scenario, token.strategy(), token, tell=tell)


def shrink(scenario: Scenario, token: Token, found: Outcome) -> tuple[Token, Outcome]:
    """The fewest deviations that still end in a violation, and that end.

    Pieces of the deviations are left out, halves first, single ones last, until none can go.
    """
    best, kept = found.deviations, found
    budget = SHRINK_RUNS
    size = max(1, len(best) // 2)
    while True:
        places = sorted(best)
        smaller = False
        for start in range(0, len(places), size):
            if budget <= 0:
                break
            budget -= 1
            without = set(places[start : start + size])
            tried = {p: best[p] for p in best if p not in without}
            outcome = run(scenario, Given(tried), token)
            if outcome.violation and len(outcome.deviations) < len(best):
                best, kept, smaller = outcome.deviations, outcome, True
                break
        if not smaller:
            if size == 1 or budget <= 0:
                break
            size //= 2
    return token._replace(how=pack(best)), kept
