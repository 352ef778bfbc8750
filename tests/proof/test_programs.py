"""Programs of several people, drawn and shrunk by Hypothesis, under schedules drawn with them."""

from __future__ import annotations

from functools import partial

import pytest

from proof.scenarios.pairs import ORDER
from proof.scenarios.programs import GOING_ON, LONGEST, Program, run_program
from proof.schedules import Scenario, run
from proof.seams import seams
from proof.tokens import Token, seeded
from support.examples import HealthCheck, given, settings, strategies as st

OPERATIONS = st.lists(st.sampled_from(GOING_ON), max_size=LONGEST).map(tuple)
PROGRAMS = st.builds(
    Program,
    given=st.sampled_from(ORDER),
    left=st.booleans(),
    people=st.tuples(OPERATIONS, OPERATIONS, OPERATIONS),
    end=st.sampled_from(("", "", "drain", "crash")),
)


@pytest.mark.slow
@settings(
    max_examples=120,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(program=PROGRAMS, kind=st.sampled_from("rp"), seed=st.integers(0, 10_000))
def test_whatever_people_do_everything_holds(program, kind, seed):
    scenario = Scenario("drawn", "", partial(run_program, program), faults=2)
    token = Token("drawn", "external", 2, seeded(kind, seed))
    with seams():
        outcome = run(scenario, token.strategy(), token)
    assert not outcome.violation
