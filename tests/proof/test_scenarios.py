"""Scenarios as tests: each under a few hundred schedules that are always the same.

The table of mutants names these as what notices a guard that is gone. `python -m proof quick` and
`full` run every scenario, and far more of each.
"""

from __future__ import annotations

import pytest

from proof.explore import explore
from proof.scenarios import all_scenarios
from proof.seams import seams

PAIRS = (
    "submit+close", "attach+submit", "resume-lazy+resume-lazy", "create+create", "resume-lazy+close",
    "submit+drain", "answer+close", "submit+unload", "resume-lazy+delete", "attach+reap",
)  # fmt: skip
"""Pairs that stand for all: the others are run by `quick`."""
CHOSEN = [s.name for s in all_scenarios().values() if s.subject not in {"pairs", "programs"}]
NAMES = [*CHOSEN, *PAIRS]
SCHEDULES = {"lifecycle": 150, "delegating": 20}
"""Few of them: `quick` runs many."""


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_nothing_breaks(name):
    scenario = all_scenarios()[name]
    with seams():
        tally = explore(scenario, SCHEDULES.get(scenario.subject, 60), stop=True)
    assert not tally.found, "\n".join(f"{what}: {token}" for what, token in tally.found.items())
