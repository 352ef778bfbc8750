"""The sweep reaches every moment, once, and each kind of fault really happens."""

from __future__ import annotations

import pytest

from proof.scenarios.operations import OPERATIONS
from proof.seams import seams
from proof.sweep import Case, cases_of, sweep, try_case


@pytest.fixture(autouse=True)
def in_seams():
    with seams():
        yield


@pytest.mark.parametrize(
    ("word", "sign"),
    [
        ("create.idle.cancel.1", "session.create is cancelled at its moment 1"),
        ("resume-lazy.stored.twice.2", "session.resume is cancelled at its moment 2"),
        ("submit.idle.interrupt.2", "! the turn is interrupted at its moment 2"),
        ("submit.idle.fail.1", "! the store's write fails"),
        ("submit.idle.fail.2", "! the model fails"),
        ("submit.idle.kill.5", "! the gateway is killed"),
    ],
)
def test_the_fault_happens_and_everything_holds(word, sign):
    outcome, was_there = try_case(Case.parse(word), tell=True)
    assert was_there
    assert any(sign in line for line in outcome.story), outcome.story
    assert not outcome.violation


def test_it_ends_beyond_the_last_moment():
    outcome, was_there = try_case(Case.parse("create.idle.cancel.99"))
    assert not was_there
    assert not outcome.violation


def test_every_operation_has_its_cases():
    assert {case[0] for case in cases_of(3)} == set(OPERATIONS) - {"crash"}


@pytest.mark.slow
def test_a_shallow_sweep_finds_nothing():
    done = sweep(4)
    assert done.cases > 300
    assert not done.found


@pytest.mark.parametrize("word", ["a.b.c.1", "create.idle.cancel", "create.idle.cancel.x", "x"])
def test_what_is_no_case_is_refused(word):
    with pytest.raises(ValueError, match=r".+"):
        Case.parse(word)
