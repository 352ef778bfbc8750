"""Where control groups may be made, and what is handed down there."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid

import pytest

from support.cgroup import NO_CGROUP, real_place
from tenure.processes.cgroups import LEAF, REAL, find_place, hand_down
from tenure.processes.procfs import all_stats, ancestors, with_descendants
from tenure.testing.cgroup import CgroupDouble

UNIFIED = "30 24 0:26 / /top rw,nosuid - cgroup2 cgroup2 rw\n"
HYBRID = (
    "25 24 0:22 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n26 25 0:23 / /sys/fs/cgroup/memory rw - "
    "cgroup cgroup rw,memory\n27 25 0:24 / /top rw shared:1 master:2 - cgroup2 cgroup2 rw\n"
)


@pytest.mark.parametrize("mounts", [UNIFIED, HYBRID])
@pytest.mark.parametrize("own", ["0::/\n", "4:memory:/a\n0::/\n", f"0::/{LEAF}\n"])
def test_all_of_a_tree_of_our_own(mounts, own):
    assert find_place(mounts, own, CgroupDouble()) == ("/top", "")


def test_what_was_given_to_a_service():
    double = CgroupDouble("/top/user.slice/tenure.service")
    double._groups |= {"/top": {}, "/top/user.slice": {}, f"{double.top}/{LEAF}": {}}
    for own in ("/user.slice/tenure.service", f"/user.slice/tenure.service/{LEAF}"):
        assert find_place(UNIFIED, f"0::{own}\n", double).path == double.top
    double.given_to_us = False
    found = find_place(UNIFIED, "0::/user.slice/tenure.service\n", double)
    assert found == (
        "", "the cgroup /user.slice/tenure.service was not given to the gateway (Delegate=yes)"
    )  # fmt: skip


def test_a_part_of_a_tree_that_is_mounted():
    double = CgroupDouble()
    part = UNIFIED.replace(" / /top", " /docker/abc /top")
    assert find_place(part, "0::/docker/abc\n", double).path == "/top"
    assert find_place(part, "0::/elsewhere\n", double).path == ""


def test_where_there_is_none_the_reason_is_told():
    double = CgroupDouble()
    double.read_only = True
    assert find_place(UNIFIED, "0::/\n", double) == ("", "/top is not writable")
    assert find_place(UNIFIED, "4:memory:/a\n", double) == ("", "this system has no cgroup v2")
    assert find_place("", "0::/\n", double) == ("", "this system has no cgroup v2")


def test_a_look_leaves_nothing_behind():
    double = CgroupDouble()
    find_place(UNIFIED, "0::/\n", double)
    assert double.names("/top") == []


def test_limits_are_handed_down_once():
    double = CgroupDouble()
    assert hand_down("/top", double) == {"memory", "pids"}
    assert double.orders == [("/top/cgroup.subtree_control", "+memory +pids")]
    assert hand_down("/top", double) == {"memory", "pids"}
    assert len(double.orders) == 1


def test_of_what_is_not_there_nothing_is_handed_down():
    double = CgroupDouble(controllers="cpu pids")
    assert hand_down("/top", double) == {"pids"}
    assert hand_down("/top", CgroupDouble(controllers="")) == frozenset()
    assert hand_down("/nowhere", double) == frozenset()


def test_who_hands_down_steps_down_first():
    double = CgroupDouble()
    double.inhabited = {os.getpid()}
    assert hand_down("/top", double) == {"memory", "pids"}
    assert double.names("/top") == [LEAF]
    assert os.getpid() in double._members[f"/top/{LEAF}"]


def test_foreign_processes_are_left_where_they_are():
    stats = all_stats()
    me = [stat for stat in stats if stat.pid == os.getpid()]
    ours = ancestors(os.getpid(), stats) | {stat.pid for stat in with_descendants(me, stats)}
    stranger = next(stat.pid for stat in stats if stat.pid not in ours)
    double = CgroupDouble()
    double.inhabited = {os.getpid(), stranger}
    assert hand_down("/top", double) == frozenset()
    assert double.inhabited == {stranger}


STEP_DOWN = """
import os, sys
sys.path.insert(0, sys.argv[1])
from tenure.processes import cgroups
cgroups.WANTED = (sys.argv[3],)
cgroups.REAL.write(sys.argv[2] + "/cgroup.procs", str(os.getpid()))
print(sorted(cgroups.hand_down(sys.argv[2])), open("/proc/self/cgroup").read().split("0::")[1])
"""


def test_the_real_one_wants_the_same():
    """With whichever controller this machine has to hand down."""
    top = real_place()
    there = REAL.read(f"{top}/cgroup.controllers").split() if top else []
    if not there:
        pytest.skip(NO_CGROUP)
    place, controller = f"{top}/tenure.step-{uuid.uuid4().hex[:8]}", there[0]
    before = REAL.read(f"{top}/cgroup.subtree_control").split()
    REAL.write(f"{top}/cgroup.subtree_control", f"+{controller}")
    REAL.make(place)
    try:
        source = str(next(p for p in sys.path if os.path.isdir(f"{p}/tenure/processes")))
        said = subprocess.run(
            [sys.executable, "-c", STEP_DOWN, source, place, controller],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        assert said.split()[0] == f"['{controller}']"
        assert said.split()[1].endswith(f"{place.removeprefix(top)}/{LEAF}")
    finally:
        for path in (f"{place}/{LEAF}", place):
            if os.path.isdir(path):
                REAL.remove(path)
        if controller not in before:
            REAL.write(f"{top}/cgroup.subtree_control", f"-{controller}")
