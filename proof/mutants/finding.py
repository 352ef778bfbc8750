"""``python -m proof mutants --find``: name the test that notices.

A row may name files or folders while it is being written. This runs them over its overlay, takes
the quickest test that fails in its own right (not by a time limit), and writes its node id into
the row.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NoReturn

import pytest

from proof.mutants.killers import QUIET, Witness
from proof.mutants.table import GUARDS, Mutant, table_of
from proof.mutants.trial import End, Outcome

TEST_S = 20
"""The limit of one test here; one that needs it is no killer."""
SLOW_S = 8.0
"""Worth a warning in the row."""
QUICK_S = 1.0
"""A test this quick is good enough: look no further."""
PATIENCE_S = 45.0
"""With any killer at hand, look no longer."""


class Seeker(Witness):
    """A pytest plugin: the quickest test that fails in its own right."""

    def __init__(self, end: End) -> None:
        super().__init__(end)
        self.best: Outcome | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the quickest failure, and stop at one that is quick."""
        self.ran += report.when == "call"
        self.skipped += report.skipped
        if not report.failed:
            if self.best is not None and self.seconds > PATIENCE_S:
                self._end(self.best)
            return
        told = self.told(report)
        if "Timeout (>" in told.why:  # its teardown would hang as well
            self._end(self.best or Outcome("hung", told.by, told.why, self.seconds))
        took = Outcome(told.verdict, told.by, told.why, report.duration)
        if self.best is None or took.seconds < self.best.seconds:
            self.best = took
        if took.seconds < QUICK_S:
            self._end(took)


def run(mutant: Mutant, folder: Path, end: End) -> NoReturn:
    """Run all that the row names; a body for `trial.start`."""
    seeker = Seeker(end)
    began = time.monotonic()
    limits = [f"--timeout={TEST_S}", "--timeout-method=signal"]
    pytest.main([*QUIET, *limits, f"--basetemp={folder / 't'}", *mutant.killers], plugins=[seeker])
    end(seeker.best or Outcome("survived", seconds=time.monotonic() - began))


def name(found: dict[Mutant, Outcome]) -> None:
    """Write what was found into the tables."""
    by_file: dict[str, list[tuple[Mutant, Outcome]]] = {}
    for mutant, outcome in found.items():
        if outcome.verdict == "killed":
            by_file.setdefault(mutant.file, []).append((mutant, outcome))
    for file, pairs in by_file.items():
        path = GUARDS / table_of(file)
        lines = path.read_text().splitlines()
        for mutant, outcome in sorted(pairs, key=lambda pair: -pair[0].line):
            first = mutant.line
            slow = [f"takes {outcome.seconds:.0f} s"] if outcome.seconds > SLOW_S else []
            lines[first : first + len(mutant.killers)] = [f"killed by {outcome.by}", *slow]
        path.write_text("\n".join(lines) + "\n")
