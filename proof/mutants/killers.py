"""What a trial runs: the tests that a row names, until one notices."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NoReturn

import pytest

from proof.mutants.table import Mutant
from proof.mutants.trial import End, Outcome

QUIET = (
    "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:anyio",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",  # what is warm is not rewritten
)  # fmt: skip


class Witness:
    """A pytest plugin: the first failure ends the trial where it stands.

    Its teardown would only wait for what the mutant has leaked; the keeper ends that.
    """

    def __init__(self, end: End) -> None:
        self._end = end
        self._began = time.monotonic()
        self.ran = self.skipped = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count, and end with the first failure."""
        self.ran += report.when == "call"
        self.skipped += report.skipped
        if report.failed:
            self._end(self.told(report))

    def told(self, report: pytest.TestReport) -> Outcome:
        """A failure, as an outcome."""
        return Outcome("killed", report.nodeid, last_line(report), self.seconds)

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._began


def last_line(report: pytest.TestReport) -> str:
    """What a failed test said, and in which phase."""
    crash = getattr(report.longrepr, "reprcrash", None)
    said = crash.message if crash is not None else str(report.longrepr)
    return f"{report.when}: {' '.join(said.split())[:200]}"


def run(mutant: Mutant, folder: Path, end: End) -> NoReturn:
    """Run what the row names; a body for `trial.start`."""
    witness = Witness(end)
    code = pytest.main(
        [*QUIET, "-x", f"--basetemp={folder / 't'}", *mutant.killers], plugins=[witness]
    )
    if code != pytest.ExitCode.OK:
        end(Outcome("broken", why=f"pytest ended with {code!r}", seconds=witness.seconds))
    if not witness.ran:
        end(Outcome("skipped", why=f"{witness.skipped} skipped", seconds=witness.seconds))
    end(Outcome("survived", seconds=witness.seconds))
