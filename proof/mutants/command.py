"""``python -m proof mutants``: remove each guard in turn; a test must fail.

python -m proof mutants                  every guard
python -m proof mutants sessions/ 26     those of a folder, of a case
python -m proof mutants --survivors      print what is not killed, and nothing else
python -m proof mutants --operators lifecycle/   a second opinion: mutants that nobody chose
python -m proof mutants --find           name the test, where a row names a file or a folder
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from proof.mutants import finding, killers, trial
from proof.mutants.operators import generated
from proof.mutants.table import Mutant, TableError, chosen, read_all
from proof.mutants.trial import Body, Outcome

LIMIT_S = 60.0
FIND_S = 150.0
WORKERS = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the subcommand takes."""
    parser.add_argument("which", nargs="*", help="case numbers, folders (sessions/), files, words")
    parser.add_argument("--survivors", action="store_true", help="list only what is not killed")
    parser.add_argument("--find", action="store_true", help="write the killing tests into the rows")
    parser.add_argument("--operators", metavar="FOLDER", help="mutants that nobody chose instead")
    parser.add_argument("--workers", type=int, default=WORKERS, help="trials at a time")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds until one is hung")


def main(args: argparse.Namespace) -> int:
    """Try the guards that are meant; 0 when a test noticed each."""
    began = time.monotonic()
    try:
        known = generated(args.operators) if args.operators else read_all()
        mutants = chosen(known, args.which)
        for mutant in mutants:
            mutant.applied()
    except TableError as exc:
        print(exc, file=sys.stderr)
        return 2
    if not mutants:
        print("no guard is meant by that", file=sys.stderr)
        return 2
    if args.find:
        mutants = [m for m in mutants if any("::" not in killer for killer in m.killers)]
    body, limit_s = (finding.run, FIND_S) if args.find else (killers.run, args.limit)
    found: dict[Mutant, Outcome] = {}
    for mutant, outcome in trials(mutants, body, args.workers, limit_s):
        found[mutant] = outcome
        _progress(found, len(mutants))
    if args.find:
        finding.name(found)
    if not args.survivors:
        _print_table(found, mutants)
    return _verdict(found, mutants, time.monotonic() - began)


def trials(
    mutants: Iterable[Mutant], body: Body, workers: int, limit_s: float
) -> Iterator[tuple[Mutant, Outcome]]:
    """Try each, and yield what became of it as it ends. Leaving early ends the trials that run.

    Args:
        mutants: in any order; the longest begin first.
        body: what each trial does.
        workers: how many at a time. Those whose tests wait for a limit are idle meanwhile, so twice
            as many of these run beside the others.
        limit_s: how long one trial may take.
    """
    trial.warm()
    queue = sorted(mutants, key=lambda mutant: -mutant.takes_s)
    lanes = ((2 * workers, deque(m for m in queue if m.takes_s)),
             (workers, deque(m for m in queue if not m.takes_s)))  # fmt: skip
    running: dict[int, tuple[Mutant, tempfile.TemporaryDirectory[str]]] = {}
    try:
        while running or any(waiting for _, waiting in lanes):
            for width, waiting in lanes:
                mine = sum(bool(m.takes_s) == (width > workers) for m, _ in running.values())
                for _ in range(min(width - mine, len(waiting))):
                    mutant, folder = waiting.popleft(), trial.new_folder()
                    pid = trial.start(mutant, body, Path(folder.name), limit_s)
                    running[pid] = (mutant, folder)
            pid, _ = os.wait()
            mutant, folder = running.pop(pid)
            with folder:
                outcome = trial.outcome(Path(folder.name))
            yield mutant, outcome
    finally:
        for pid, (_, folder) in running.items():
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
            folder.cleanup()


def _progress(found: dict[Mutant, Outcome], of: int) -> None:
    done, bad = len(found), sum(outcome.verdict != "killed" for outcome in found.values())
    if sys.stderr.isatty():
        print(f"\r{done} of {of}, {bad} not killed ", end="", file=sys.stderr, flush=True)
    elif done % 50 == 0 or done == of:
        print(f"{done} of {of}, {bad} not killed", file=sys.stderr, flush=True)


def _print_table(found: dict[Mutant, Outcome], mutants: Iterable[Mutant]) -> None:
    file = ""
    for mutant in mutants:
        if mutant.file != file:
            file = mutant.file
            print(f"\n{file}")
        outcome = found[mutant]
        by = (
            outcome.by if outcome.verdict == "killed" else f"{outcome.verdict.upper()} {outcome.by}"
        )
        print(f"  {outcome.seconds:5.1f} s  {mutant.about}\n           {by}")


def _verdict(found: dict[Mutant, Outcome], mutants: list[Mutant], seconds: float) -> int:
    alive = [m for m in mutants if found[m].verdict != "killed"]
    skipped = [m for m in alive if found[m].verdict == "skipped"]
    print(
        f"\n{len(mutants)} guards removed, {len(mutants) - len(alive)} noticed, in {seconds:.0f} s"
    )
    for mutant in alive:
        outcome = found[mutant]
        why = f" ({outcome.why})" if outcome.why else ""
        print(f"{outcome.verdict.upper()}  {mutant.place}: {mutant.about}{why}")
    must = alive if os.environ.get("TENURE_TESTS_REAL") else set(alive) - set(skipped)
    return 1 if must else 0
