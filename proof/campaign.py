"""Many scenarios on both cores: the work in pieces, two processes, one table.

A piece is one scenario with so many schedules from one seed. Which pieces are done stands in a
file, so that a campaign that was interrupted goes on where it was.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from proof.explore import explore, kind_of
from proof.scenarios import all_scenarios
from proof.seams import seams
from proof.workers import PROCESSES, workers

PIECE_MAX = 2_000
"""Schedules of one piece at most: what an interruption may cost."""


class Piece(NamedTuple):
    """A scenario, how many schedules of it, and the seed of what is random in them."""

    scenario: str
    schedules: int
    seed: int


class Done(NamedTuple):
    """What a piece came to; see `proof.explore.Tally`."""

    scenario: str
    schedules: int
    steps: int
    seconds: float
    exhausted: bool
    found: dict[str, str]


@dataclass
class Table:
    """What a campaign has come to so far."""

    schedules: int = 0
    steps: int = 0
    cpu_s: float = 0.0
    by_subject: dict[str, list[int]] = field(default_factory=dict)
    """Of each subject: scenarios that were run, and schedules."""
    least: int = 0
    """Schedules of the scenario that got fewest."""
    found: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Scenario and token by kind of violation."""


def pieces(total: int, seed: int, rounds: int = 1) -> list[Piece]:
    """Share `total` schedules among all scenarios, in so many rounds with seeds of their own."""
    scenarios = list(all_scenarios().values())
    whole = sum(SHARES[s.subject] * s.share for s in scenarios)
    found = []
    for turn in range(rounds):
        for scenario in scenarios:
            mine = SHARES[scenario.subject] * scenario.share / whole
            left = -(-int(total * mine + 1) // rounds)
            while left > 0:
                found.append(Piece(scenario.name, min(left, PIECE_MAX), seed + turn))
                left -= PIECE_MAX
    return found


SHARES = {
    "lifecycle": 6.0, "lent": 6.0, "inside": 4.0, "boxes": 4.0,
    "pairs": 1.0, "shared": 1.5, "delegating": 0.3, "programs": 0.35,
}  # fmt: skip
"""Schedules of a scenario against others. Primitives are quick, and everything stands on them."""


def run_piece(piece: Piece) -> tuple[Piece, Done]:
    """Run one piece. For a process of the pool."""
    scenario = all_scenarios()[piece.scenario]
    with seams():
        tally = explore(scenario, piece.schedules, piece.seed)
    found = {violation: str(token) for violation, token in tally.found.items()}
    done = Done(piece.scenario, tally.runs, tally.steps, tally.seconds, tally.exhausted, found)
    return piece, done


def run_pieces(
    todo: Iterable[Piece],
    told: Callable[[Piece, Done], object],
    *,
    until: float | None = None,
    processes: int = PROCESSES,
) -> None:
    """Run pieces in processes of their own; `told` hears of each that is done, in this one.

    Args:
        todo: in this order, roughly.
        told: called with each piece and what it came to.
        until: begin none after this, in monotonic seconds.
        processes: how many.
    """
    room = threading.Semaphore(2 * processes)  # what is handed out is done, also if we stop
    over = threading.Event()

    def given() -> Iterator[Piece]:
        for piece in todo:
            room.acquire()
            if over.is_set() or (until is not None and time.monotonic() > until):
                return
            yield piece

    with workers(processes, tasks_each=400) as pool:
        try:
            for piece, done in pool.imap_unordered(run_piece, given(), chunksize=1):
                room.release()
                told(piece, done)
        finally:
            over.set()
            room.release()  # else the thread that hands out would be waited for, for ever


def table_of(results: Iterable[Done]) -> Table:
    """Everything that was done, in one table."""
    table = Table()
    per_scenario: dict[str, int] = {}
    for done in results:
        table.schedules += done.schedules
        table.steps += done.steps
        table.cpu_s += done.seconds
        before = per_scenario.get(done.scenario, 0)
        row = table.by_subject.setdefault(all_scenarios()[done.scenario].subject, [0, 0])
        row[0] += not before
        row[1] += done.schedules
        per_scenario[done.scenario] = before + done.schedules
        for violation, token in done.found.items():
            table.found.setdefault(kind_of(violation), (violation, token))
    table.least = min(per_scenario.values(), default=0)
    return table


def lines_of(table: Table) -> Iterator[str]:
    """The table as text that is also markdown."""
    yield "| subject | scenarios | schedules |"
    yield "|---|---:|---:|"
    for subject, (scenarios, schedules) in table.by_subject.items():
        yield f"| {subject} | {scenarios} | {schedules:,} |"
    scenarios = sum(row[0] for row in table.by_subject.values())
    yield f"| all | {scenarios} | {table.schedules:,} |"
    yield ""
    rate = table.schedules / table.cpu_s if table.cpu_s else 0.0
    yield (
        f"{table.steps:,} steps; {rate:,.0f} schedules a second and core; at least "
        f"{table.least:,} schedules of every scenario; {len(table.found)} violations"
    )
    for violation, token in table.found.values():
        yield f"- VIOLATION {violation}: `python -m proof replay {token}`"


class Progress:
    """One line that is written again and again, on a terminal; a line now and then elsewhere."""

    def __init__(self, total: int) -> None:
        self._total, self._count, self._begun = total, 0, time.monotonic()
        self._told = 0.0

    def add(self, schedules: int, violations: int) -> None:
        """So many more are done."""
        self._count += schedules
        now = time.monotonic()
        terminal = sys.stderr.isatty()
        if now - self._told < (0.5 if terminal else 20.0):
            return
        self._told = now
        part = self._count / self._total
        text = (
            f"{self._count:,} of {self._total:,} schedules ({part:.0%}), {now - self._begun:.0f} s"
        )
        text += f", {violations} violations" if violations else ""
        print(f"\r{text}  " if terminal else text, end="" if terminal else "\n", file=sys.stderr)
        sys.stderr.flush()


class State:
    """Which pieces of a campaign are done: a file with a line for each, only appended to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.done: dict[Piece, Done] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    piece, done = json.loads(line)
                except ValueError:
                    continue  # the line that was being written when it was interrupted
                self.done[Piece(*piece)] = Done(*done)

    def keep(self, piece: Piece, done: Done) -> None:
        """This piece is done."""
        self.done[piece] = done
        with self._path.open("a") as file:
            file.write(json.dumps([piece, done]) + "\n")
