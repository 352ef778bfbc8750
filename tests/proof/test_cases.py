"""docs/cases.md says what there is."""

from __future__ import annotations

from proof import cases
from proof.mutants.table import ROOT, read_all
from proof.scenarios import all_scenarios


def test_the_page_is_that_of_today():
    assert cases.PAGE.read_text() == cases.page(), "run: python -m proof cases"


def test_every_case_is_held_or_awaits_a_part():
    held = {row.case for row in read_all()} | set(cases.ELSEWHERE)
    assert len(cases.TITLES) == 100
    assert set(range(1, 101)) == held - {0} | set(cases.AWAITED)
    assert not held & set(cases.AWAITED), "it is built now"


def test_what_is_named_is_there():
    assert {name for names in cases.EXPLORED.values() for name in names} <= set(all_scenarios())
    assert all((ROOT / file).is_file() for files in cases.ELSEWHERE.values() for file in files)
