"""``full``: a million schedules and the whole sweep, on both cores, resumable, with a report.

What is done stands in a folder; the same command goes on where it was interrupted. The schedules
go round all scenarios many times with fresh seeds, so that an interrupted campaign is a smaller one
and not a part.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from proof import sweep
from proof.campaign import (
    Done,
    Piece,
    Progress,
    State,
    lines_of,
    pieces,
    run_pieces,
    table_of,
)
from proof.scenarios.operations import OPERATIONS
from proof.seams import seams
from proof.workers import PROCESSES, workers

SCHEDULES = 1_000_000
ROUNDS = 20
DEPTH = 2_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("--folder", type=Path, default=cache / "tenure" / "proof")
    parser.add_argument("--schedules", type=int, default=SCHEDULES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--depth", type=int, default=DEPTH, help="moments of each sweep")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="stop after so long; run it again to go on")


def main(args: argparse.Namespace) -> int:
    args.folder.mkdir(parents=True, exist_ok=True)
    name = f"full-{args.schedules}-{args.rounds}-{args.seed}"
    state = State(args.folder / f"{name}.jsonl")
    todo = [p for p in pieces(args.schedules, args.seed, args.rounds) if p not in state.done]
    print(f"{len(state.done):,} pieces are done, {len(todo):,} to do; state in {args.folder}")
    until = time.monotonic() + args.minutes * 60 if args.minutes else None
    begun = time.monotonic()
    complete = explore_all(todo, state, until)
    swept = sweep_all(args.depth) if complete else []
    report = list(report_of(state, swept, time.monotonic() - begun, complete=complete))
    (args.folder / f"{name}.md").write_text("\n".join(report) + "\n")
    print("\n".join(report))
    broken = bool(table_of(state.done.values()).found) or any(one.found for one in swept)
    if broken:
        return 1
    return 0 if complete else 3


def explore_all(todo: list[Piece], state: State, until: float | None) -> bool:
    """Do what is to do, until it is time to stop; whether everything is done."""
    progress = Progress(sum(piece.schedules for piece in todo) or 1)
    left, found = set(todo), 0

    def told(piece: Piece, done: Done) -> None:
        nonlocal found
        found += len(done.found)
        left.discard(piece)
        state.keep(piece, done)
        progress.add(done.schedules, found)

    run_pieces(todo, told, until=until)
    return not left


def sweep_all(depth: int) -> list[sweep.Swept]:
    """The whole sweep, an operation at a time, in as many processes."""
    with workers() as pool:
        work = [(depth, (name,)) for name in OPERATIONS]
        return pool.starmap(_sweep_one, work, chunksize=1)


def _sweep_one(depth: int, names: tuple[str, ...]) -> sweep.Swept:
    with seams():
        return sweep.sweep(depth, names)


def report_of(
    state: State, swept: list[sweep.Swept], seconds: float, *, complete: bool
) -> Iterator[str]:
    """What was run and what came of it, as markdown."""
    table = table_of(state.done.values())
    yield f"# {'Full' if complete else 'Unfinished'} proof, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    yield ""
    yield (
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {PROCESSES} processes; "
        f"{table.cpu_s:,.0f} s of schedules in all, this run {seconds:,.0f} s."
    )
    yield ""
    yield from lines_of(table)
    if swept:
        yield ""
        moments = sum(one.cases for one in swept)
        violations = sum(len(one.found) for one in swept)
        told = f"{moments:,} moments of {len(OPERATIONS)} operations, {violations} violations"
        yield f"Sweep: {told}."
        for one in swept:
            for case, violation in one.found.items():
                yield f"- VIOLATION {violation}: `python -m proof sweep --case {case}`"
