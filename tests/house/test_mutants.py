"""The table of mutants names code and tests that exist (running them: python -m tests.cases.mutants)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def table():
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "tests/cases/mutants.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MUTANTS


def test_every_mutant_applies_and_has_tests():
    for mutant in table():
        text = (ROOT / "src/tenure" / mutant.file).read_text()
        assert mutant.old in text, f"case {mutant.case}: {mutant.file} has changed"
        # One that does not even compile would be killed by any test.
        compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")
        for pattern in mutant.tests.split():
            assert list(ROOT.glob(pattern)), f"case {mutant.case}: no test matches {pattern}"


def test_every_case_test_has_a_mutant_or_is_covered_by_a_unit_mutant():
    cases = {int(p.name.split("_")[2]) for p in (ROOT / "tests/cases").glob("test_case_*.py")}
    missing = cases - {mutant.case for mutant in table()}
    assert not missing, f"cases without a mutant: {sorted(missing)}"
