"""``explore``: run scenarios under many schedules; tell what does not hold, with a token each."""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch

from proof.loop import Mode
from proof.scenarios import all_scenarios
from proof.schedules import Outcome, Scenario, replay, run, shrink
from proof.seams import seams
from proof.strategies import FewDeviations, Given
from proof.tokens import Token, pack, seeded

MODES: tuple[Mode, ...] = ("external", "any")
SEARCHED = 0.25
"""The part of a budget that goes to the search with few deviations; the rest is random."""
BOUND = 2
KINDS_MAX = 5
"""Kinds of violations of one scenario after which there is no need for more."""


@dataclass
class Tally:
    """What exploring one scenario came to.

    Attributes:
        runs: schedules.
        steps: of all of them.
        seconds: that they took.
        exhausted: whether every schedule within the bound of deviations was run.
        found: shrunk tokens by violation.
        first: the number of the first schedule with a violation.
    """

    runs: int = 0
    steps: int = 0
    seconds: float = 0.0
    exhausted: bool = False
    found: dict[str, Token] = field(default_factory=dict)
    first: int = 0


def schedules(
    scenario: Scenario, count: int, seed: int, tally: Tally
) -> Iterator[tuple[Token, Outcome]]:
    """Run `count` schedules: few deviations first, then walks and priorities, in both modes."""
    searched = int(count * SEARCHED)
    search = FewDeviations(BOUND, random.Random(seed))
    for _, deviations in zip(range(searched), search, strict=False):
        token = Token(scenario.name, "external", scenario.faults, pack(deviations))
        outcome = run(scenario, Given(deviations), token)
        search.seen(outcome.widths)
        yield token, outcome
    tally.exhausted = search.exhausted
    for number in range(max(0, count - searched)):
        mode = MODES[number // 2 % 3 // 2]  # two of three as asyncio orders them
        how = seeded("rp"[number % 2], seed * 1_000_003 + number)
        faults = scenario.faults if number % 4 < 2 else 0
        token = Token(scenario.name, mode, faults, how)
        yield token, run(scenario, token.strategy(), token)


def explore(scenario: Scenario, count: int, seed: int = 0, *, stop: bool = False) -> Tally:
    """Explore one scenario; every violation is shrunk. The seams must be in place.

    Args:
        scenario: which.
        count: how many schedules.
        seed: of everything random.
        stop: at the first violation.
    """
    tally, begun = Tally(), time.perf_counter()
    kinds: set[str] = set()
    for token, outcome in schedules(scenario, count, seed, tally):
        tally.runs += 1
        tally.steps += outcome.steps
        if outcome.violation and kind_of(outcome.violation) not in kinds:
            tally.first = tally.first or tally.runs
            short, shortest = shrink(scenario, token, outcome)
            kinds |= {kind_of(outcome.violation), kind_of(shortest.violation)}
            tally.found.setdefault(shortest.violation, short)
            if stop or len(tally.found) >= KINDS_MAX:
                break
    tally.seconds = time.perf_counter() - begun
    return tally


def kind_of(violation: str) -> str:
    """A violation without what differs from run to run."""
    return re.sub(r"[0-9]+", "#", violation)[:80]


def chosen(patterns: Iterable[str]) -> list[Scenario]:
    """The scenarios whose names match any of the patterns; all without one."""
    wanted = list(patterns)
    return [
        scenario
        for scenario in all_scenarios().values()
        if not wanted or any(fnmatch(scenario.name, pattern) for pattern in wanted)
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", help="scenarios, or patterns of their names")
    parser.add_argument("--schedules", type=int, default=400, help="of each scenario")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stop", action="store_true", help="at a scenario's first violation")
    parser.add_argument("--list", action="store_true", help="name the scenarios and stop")


def main(args: argparse.Namespace) -> int:
    scenarios = chosen(args.names)
    if not scenarios:
        print(f"no scenario is called {' '.join(args.names)}; --list names them", file=sys.stderr)
        return 2
    if args.list:
        for scenario in scenarios:
            print(f"{scenario.subject:10} {scenario.name:44} {scenario.about}")
        return 0
    broken = 0
    with seams():
        for scenario in scenarios:
            tally = explore(scenario, args.schedules, args.seed, stop=args.stop)
            broken += tell(scenario, tally)
    print(f"{len(scenarios)} scenarios, {broken} with a violation")
    return 1 if broken else 0


def tell(scenario: Scenario, tally: Tally) -> bool:
    """One line of the table, and what was found; whether anything was."""
    rate = tally.runs / tally.seconds if tally.seconds else 0.0
    all_of_them = "  all within the bound" if tally.exhausted else ""
    print(
        f"{scenario.name:44} {tally.runs:7,} schedules {rate:8,.0f}/s "
        f"{tally.steps / max(1, tally.runs):6.0f} steps{all_of_them}",
        flush=True,
    )
    for violation, token in tally.found.items():
        print(f"   VIOLATION {violation}\n      python -m proof replay {token}", flush=True)
    return bool(tally.found)


def story_of(token: Token) -> Outcome:
    """Run a token's schedule with its story told."""
    with seams():
        return replay(all_scenarios()[token.scenario], token, tell=True)
