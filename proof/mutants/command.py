"""``python -m proof mutants``: remove each guard in turn; a test must fail.

python -m proof mutants                  every guard
python -m proof mutants sessions/ 26     those of a folder, of a case
python -m proof mutants --survivors      print what is not killed, and nothing else
python -m proof mutants --operators lifecycle/   a second opinion: mutants that nobody chose
python -m proof mutants --find           name the test, where a row names a file or a folder
python -m proof mutants --control        remove nothing: each test that a row names must pass
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

from proof.mutants import finding, killers, sitting, trial
from proof.mutants.operators import generated
from proof.mutants.sitting import gathered
from proof.mutants.table import Mutant, TableError, chosen, read_all
from proof.mutants.trial import Body, Outcome

LIMIT_S = 60.0
FIND_S = 150.0
HANG_S = 30
"""The limit of one test over a mutant that nobody chose: what hangs is noticed by who runs it."""
WORKERS = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the subcommand takes."""
    parser.add_argument("which", nargs="*", help="case numbers, folders (sessions/), files, words")
    parser.add_argument("--survivors", action="store_true", help="list only what is not killed")
    parser.add_argument("--find", action="store_true", help="write the killing tests into the rows")
    parser.add_argument("--control", action="store_true", help="remove nothing; all must pass")
    parser.add_argument("--operators", metavar="FOLDER", help="mutants that nobody chose instead")
    parser.add_argument("--workers", type=int, default=WORKERS, help="trials at a time")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds until one is hung")


def main(args: argparse.Namespace) -> int:
    """Try the guards that are meant; 0 when a test noticed each."""
    began = time.monotonic()
    try:
        mutants = _meant(args)
    except TableError as exc:
        print(exc, file=sys.stderr)
        return 2
    if not mutants:
        print("no guard is meant by that", file=sys.stderr)
        return 2
    if args.find:
        mutants = [m for m in mutants if any("::" not in killer for killer in m.killers)]
    if args.control:
        mutants = list({m.killers: m._replace(hunks=()) for m in mutants}.values())
    body, limit_s = (finding.run, FIND_S) if args.find else (killers.run, args.limit)
    found: dict[Mutant, Outcome] = {}
    again = not args.operators
    for mutant, outcome in trials(mutants, body, args.workers, limit_s, again=again):
        found[mutant] = outcome
        _progress(found, len(mutants))
    if args.find:
        finding.name(found)
    if args.control:
        return _control(found, time.monotonic() - began)
    if not args.survivors:
        _print_table(found, mutants)
    return _verdict(found, mutants, time.monotonic() - began)


def _meant(args: argparse.Namespace) -> list[Mutant]:
    if args.operators:
        os.environ["PYTEST_TIMEOUT"] = str(HANG_S)
    known = generated(args.operators) if args.operators else read_all()
    mutants = chosen(known, args.which)
    for mutant in mutants:
        mutant.applied()
    return mutants


def trials(
    mutants: Iterable[Mutant], body: Body, workers: int, limit_s: float, *, again: bool = True
) -> Iterator[tuple[Mutant, Outcome]]:
    """Try each, and yield what became of it as it ends. Leaving early ends the trials that run.

    Args:
        mutants: in any order; the longest begin first.
        body: what each trial does. `killers.run` is also done in sittings.
        workers: how many at a time. Those whose tests wait for a limit are idle meanwhile, so twice
            as many of these run beside the others.
        limit_s: how long one trial may take.
        again: whether what is not noticed in a sitting is tried once more by itself.
    """
    trial.warm()
    queue = sorted(mutants, key=lambda mutant: -mutant.takes_s)
    quick = [mutant for mutant in queue if not mutant.takes_s]
    waiting = deque([mutant] for mutant in queue if mutant.takes_s)
    busy = deque(gathered(quick) if body is killers.run else ([mutant] for mutant in quick))
    running: dict[int, tuple[list[Mutant], bool, tempfile.TemporaryDirectory[str]]] = {}

    def begin(rows: list[Mutant], *, together: bool) -> None:
        folder = trial.new_folder()
        place = Path(folder.name)
        if together:
            pid = sitting.start(rows, place, limit_s)
        else:
            pid = trial.start(rows[0], body, place, limit_s)
        running[pid] = (rows, together, folder)

    try:
        while running or waiting or busy:
            slow = sum(bool(rows[0].takes_s) for rows, _, _ in running.values())
            for _ in range(min(2 * workers - slow, len(waiting))):
                begin(waiting.popleft(), together=False)
            for _ in range(min(workers - (len(running) - slow), len(busy))):
                rows = busy.popleft()
                begin(rows, together=len(rows) > 1)
            pid, _ = os.wait()
            rows, together, folder = running.pop(pid)
            place = Path(folder.name)
            with folder:
                found = (
                    list(sitting.outcomes(rows, place, again=again))
                    if together
                    else [(rows[0], trial.outcome(place))]
                )
            for mutant, outcome in found:
                if outcome.verdict == "apart":
                    busy.append([mutant])
                else:
                    yield mutant, outcome
    finally:
        for pid, (_, _, folder) in running.items():
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


def _control(found: dict[Mutant, Outcome], seconds: float) -> int:
    """1 if a test fails although nothing was removed: it would notice anything."""
    bad = {m: o for m, o in found.items() if o.verdict not in {"survived", "skipped"}}
    print(f"{len(found)} tests with nothing removed, {len(bad)} do not pass, in {seconds:.0f} s")
    for mutant, outcome in bad.items():
        print(f"{outcome.verdict.upper()}  {' '.join(mutant.killers)} ({outcome.why})")
    return 1 if bad else 0


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
