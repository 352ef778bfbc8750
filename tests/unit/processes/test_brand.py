"""The brand: kept by forks, by exec and by a cleared environment; absent where nobody set it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from tenure.processes.brand import (
    COUNT_BITS,
    number_in,
    number_of,
    numbered,
    read_brand,
    read_number,
    wear,
)
from tenure.processes.procfs import LINUX
from tenure.processes.reconcile import sweep

pytestmark = pytest.mark.skipif(
    not LINUX, reason="resource limits of others can be read on Linux only"
)

CHILD = """
import subprocess, sys
from tenure.processes.brand import wear
assert wear(sys.argv[1])
child = subprocess.Popen(["env", "-i", "/bin/sh", "-c", "exec /bin/sleep 60 <&- >&-"], start_new_session=True)
print(child.pid, flush=True)
sys.stdin.read()
child.kill()
child.wait()
"""


@pytest.fixture
def branded():
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, "abcdef0-00000042"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    pid = int(process.stdout.readline())
    yield process.pid, pid
    process.communicate()


def test_a_child_without_environment_still_has_it(branded):
    for pid in branded:
        assert read_brand(pid) == "abcdef0-00000042"


def test_the_sweep_finds_it_by_nothing_else(branded):
    _, bare = branded
    asked = set()

    def is_dead(instance: str) -> bool:
        asked.add(instance)
        return False

    assert sweep(is_dead).ended == ()
    assert "abcdef0-00000042" in asked
    assert bare in sweep(lambda instance: instance == "abcdef0-00000042").ended


def test_who_wears_none():
    assert read_brand(os.getpid()) == ""
    assert read_brand(2**22 + 1) == ""
    assert not wear("abc-1"), "what does not fit is not worn"
    assert read_brand(os.getpid()) == ""


REFUSED = """
import resource, sys
from tenure.processes.brand import numbered, wear
for limit in (10, resource.RLIMIT_RSS):
    resource.setrlimit(limit, (5, 5))
before = resource.getrlimit(resource.RLIMIT_RSS)
assert not wear("abcdef0-00000042")
with numbered(7):
    assert resource.getrlimit(resource.RLIMIT_RSS) == before
print("went on")
"""


def test_where_the_system_does_not_take_it_things_go_on():
    said = subprocess.run(
        [sys.executable, "-c", REFUSED], capture_output=True, text=True, check=True
    )
    assert said.stdout == "went on\n"


MARK = "0000000a"


def test_a_number_is_worn_while_something_is_started_and_no_longer():
    number = number_of(MARK, 5)
    with numbered(number):
        assert read_number(os.getpid()) == number
    assert read_number(os.getpid()) == 0
    with pytest.raises(OSError, match="it cannot be started"):
        with numbered(number):
            raise OSError("it cannot be started")
    assert read_number(os.getpid()) == 0


def test_a_limit_that_somebody_has_set_is_no_number():
    before = resource.getrlimit(resource.RLIMIT_RSS)
    resource.setrlimit(resource.RLIMIT_RSS, (1 << 30, before[1]))
    try:
        assert read_number(os.getpid()) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_RSS, before)


def test_a_number_never_grows_into_another_mark():
    assert number_of(MARK, (1 << COUNT_BITS) + 3) == number_of(MARK, 3)
    assert number_of(MARK, 3) >> COUNT_BITS == int(MARK, 16)


@pytest.mark.parametrize(
    "label",
    ["", MARK, f"{MARK}-", f"{MARK}-x", f"{MARK}-\N{SUPERSCRIPT TWO}", f"{MARK}-{'9' * 5000}",
     "0000000b-3", f"{MARK}-3/other"],
)  # fmt: skip
def test_a_label_that_names_no_tree_of_ours_has_no_number(label):
    assert number_in(f"inst/owner/{label}", MARK) == 0
    assert number_in(f"inst/owner/{MARK}-3", MARK) == number_of(MARK, 3)
