"""``quick``: what is run before a change lands. Scenarios, a sweep at reduced depth, the mutants.

Exit code 1, with a token for each violation, if anything does not hold.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from proof import sweep
from proof.campaign import Done, Piece, Progress, lines_of, pieces, run_pieces, table_of
from proof.seams import seams

SCHEDULES = 50_000
DEPTH = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--schedules", type=int, default=SCHEDULES)
    parser.add_argument("--depth", type=int, default=DEPTH, help="moments of each sweep")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-mutants", action="store_true", help="leave the mutants out")


def main(args: argparse.Namespace) -> int:
    begun = time.monotonic()
    # Beside the schedules: the tests of mutants wait for much of their time.
    with nullcontext() if args.no_mutants else mutants() as running:
        code = schedules(args.schedules, args.seed)
        with seams():
            code |= sweep.tell(sweep.sweep(args.depth))
        if running is not None:
            code |= running.wait()
    print(f"quick: {'all holds' if not code else 'BROKEN'}, {time.monotonic() - begun:.0f} s")
    return code


def schedules(total: int, seed: int) -> int:
    """Explore every scenario, in two processes; 1 if something was found."""
    todo, results = pieces(total, seed), list[Done]()
    progress = Progress(total)

    def told(_: Piece, done: Done) -> None:
        results.append(done)
        progress.add(done.schedules, sum(len(one.found) for one in results))

    begun = time.monotonic()
    run_pieces(todo, told)
    table = table_of(results)
    print("\n".join(["", *lines_of(table), f"{time.monotonic() - begun:.0f} s"]))
    return 1 if table.found else 0


@contextmanager
def mutants() -> Iterator[subprocess.Popen[bytes]]:
    """Every mutant must be killed: `proof mutants`, as a process of its own.

    Ownership: it is ended on leaving, if it still runs.
    """
    running = subprocess.Popen([sys.executable, "-m", "proof", "mutants"])
    try:
        yield running
    finally:
        running.terminate()
        running.wait()
