"""The table of guards fits the source and the tests, and a verdict is one on the changed file."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys

import pytest

from proof.mutants import overlay
from proof.mutants.operators import generated
from proof.mutants.table import ROOT, SOURCE, TableError, read_all, read_table

ROW = """case 7: it is wrong
killed by tests/unit/test_ids.py::test_x
-a = 1
+a = 2
"""


@pytest.fixture(scope="module")
def rows():
    return read_all()


def test_every_row_applies(rows):
    for row in rows:
        row.applied()


def test_every_killer_is_there(rows):
    defined: dict[str, set[str]] = {}
    for row in rows:
        for killer in row.killers:
            path, _, name = killer.partition("::")
            assert name, f"{row.place} names no single test (python -m proof mutants --find)"
            if path not in defined:
                tree = ast.parse((ROOT / path).read_text())
                functions = (ast.FunctionDef, ast.AsyncFunctionDef)
                defined[path] = {n.name for n in ast.walk(tree) if isinstance(n, functions)}
            assert name.split("[")[0].split("::")[-1] in defined[path], f"{row.place}: {killer}"


def test_no_guard_stands_twice(rows):
    said = [(row.file, row.about) for row in rows]
    assert len(said) == len(set(said))


def test_every_case_with_a_test_has_a_guard(rows):
    cases = {int(p.name.split("_")[2]) for p in (ROOT / "tests/cases").glob("test_case_*.py")}
    assert cases <= {row.case for row in rows}


def test_a_row_is_read():
    (row,) = read_table(ROW, "x.py")
    assert (row.case, row.about, row.killers) == (
        7, "it is wrong", ("tests/unit/test_ids.py::test_x",)
    )  # fmt: skip
    assert row.hunks == (("a = 1\n", "a = 2\n"),)


@pytest.mark.parametrize(
    "text",
    [
        "a = 1\n" + ROW,
        ROW.replace("killed by", "noticed by"),
        ROW.replace("+a = 2", "+a = 1"),
        ROW.split("-", maxsplit=1)[0],
    ],
    ids=["no head", "no killer", "no difference", "no change"],
)
def test_a_row_that_says_nothing_is_refused(text):
    with pytest.raises(TableError, match=r"x\.diff:\d"):
        list(read_table(text, "x.py"))


def test_what_nobody_chose_meets_the_tests_of_its_name_first_and_those_of_its_table_last(rows):
    mutants = generated("lifecycle/entry.py") + generated("lifecycle/shared.py")
    assert not any("TYPE_CHECKING" in mutant.about for mutant in mutants)
    killers = mutants[-1].killers
    unit = [killer for killer in killers if killer.startswith("tests/unit/lifecycle/")]
    named = {killer for row in rows if row.file == "lifecycle/shared.py" for killer in row.killers}
    assert killers[: len(unit)] == tuple(unit) and unit[0].endswith("/test_shared.py")
    assert len(unit) == len(list((ROOT / "tests/unit/lifecycle").glob("test_*.py")))
    elsewhere = {killer for killer in named if not killer.startswith("tests/unit/lifecycle/")}
    assert elsewhere and set(killers[len(unit) :]) == elsewhere


def test_a_child_executes_the_changed_file(tmp_path):
    """What tests start sees the overlay as well; the rest of the package is the original."""
    text = (SOURCE / "ids.py").read_text().replace("SESSION_ID = ", "SESSION_ID = None and ")
    overlay.lay(tmp_path, SOURCE, "ids.py", text)
    probe = (
        "import tenure.ids, tenure.lifecycle.scope as s; print(tenure.ids.SESSION_ID, s.__file__)"
    )
    child = [sys.executable, "-c", f"import os, sys; os.execv(sys.executable, [sys.executable, '-c', {probe!r}])"]  # fmt: skip
    done = subprocess.run(
        child, env={**os.environ, "PYTHONPATH": str(tmp_path)}, cwd=tmp_path,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["None", str(tmp_path / "tenure/lifecycle/scope.py")]
    assert (tmp_path / overlay.EXECUTED).exists()
    assert (tmp_path / "tenure/lifecycle/scope.py").resolve() == SOURCE / "lifecycle/scope.py"


TRIALS = """
import json, os, sys
from pathlib import Path
from proof.mutants import killers, sitting, trial
from proof.mutants.command import trials
from proof.mutants.table import Hunk, Mutant

def spin(mutant, folder, end):
    os.fork()
    while True:
        pass

def row(name, file, old, new, test):
    return Mutant(0, name, file, (test,), (Hunk(old, new),), 1)

IDS = "tests/unit/test_ids.py"
NAME = IDS + "::test_what_may_not_name_a_file_is_refused"
CONSTANT = 'SESSION_ID = re.compile(r"[0-9]{8}_[0-9]{6}_[0-9a-f]{8}")\\n'
NUMBER = "    return int(text) if _DIGITS.fullmatch(text) else None\\n"
CHECK = "    if NAME.fullmatch(text) is None or text in _RESERVED:\\n"
rows = [
    row("in a function", "ids.py", CHECK, "    if text in _RESERVED:\\n", NAME),
    row("outside functions", "ids.py", CONSTANT, 'SESSION_ID = re.compile("x")\\n', IDS),
    row("unnoticed", "ids.py", CHECK, CHECK + "        assert True\\n", IDS),
    row("unnoticed outside", "ids.py", CONSTANT, CONSTANT + "UNUSED = 1\\n", IDS),
    row("elsewhere", "shutdown.py", "import math\\n", "import math\\nUNUSED = 1\\n", IDS),
    row("no test", "ids.py", NUMBER, "    return 1\\n", IDS + "::test_nothing"),
]
together = [row("nothing", "ids.py", CHECK, CHECK, NAME)._replace(hunks=()), *rows[:3], rows[5]]
with trial.new_folder() as folder:
    trial.warm()
    os.waitpid(sitting.start(together, Path(folder), 60), 0)
    sat = {mutant.about: one.verdict for mutant, one in sitting.outcomes(together, Path(folder))}
    stands = sitting.outcomes(together, Path(folder), again=False)
    sat_once = {mutant.about: one.verdict for mutant, one in stands}
found = {mutant.about: outcome.verdict for mutant, outcome in trials(rows, killers.run, 2, 60)}
mutant = row("endless", "ids.py", CHECK, "    if text in _RESERVED:\\n", IDS)
(found["endless"],) = [outcome.verdict for _, outcome in trials([mutant], spin, 1, 0.3)]
print(json.dumps([sat, sat_once, found]))
"""


@pytest.mark.slow
def test_what_becomes_of_mutants():
    """Only a test that fails over the changed file is a kill; what is not one together is alone."""
    done = subprocess.run(
        [sys.executable, "-c", TRIALS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    sat, sat_once, found = json.loads(done.stdout.splitlines()[-1])
    assert sat == {
        "nothing": "survived",
        "in a function": "killed",
        "outside functions": "apart",
        "unnoticed": "apart",
        "no test": "apart",
    }
    assert sat_once == {**sat, "unnoticed": "survived"}
    assert found == {
        "in a function": "killed",
        "outside functions": "killed",
        "unnoticed": "survived",
        "unnoticed outside": "survived",
        "elsewhere": "not executed",
        "no test": "broken",
        "endless": "hung",
    }
