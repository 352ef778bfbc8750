"""The brand: kept by forks, by exec and by a cleared environment; absent where nobody set it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tenure.processes.brand import read_brand, wear
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
    assert not wear("home-1"), "what does not fit is not worn"
    assert read_brand(os.getpid()) == ""
