"""Where control groups may be made, and what is handed down there."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid

import pytest

from support.cgroup import NO_CGROUP, real_place
from tenure.processes import cgroups
from tenure.processes.cgroups import (
    LEAF,
    REAL,
    Group,
    find_place,
    hand_down,
    look_for_place,
    offered,
    sweep,
)
from tenure.processes.procfs import all_stats, ancestors, with_descendants
from tenure.testing.cgroup import CgroupDouble
from tenure.testing.plugin import open_fds

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
    assert hand_down("/nowhere", double) == offered("/nowhere", double) == frozenset()
    assert look_for_place(2**22 + 1).path == ""


def test_who_hands_down_steps_down_first():
    double = CgroupDouble()
    double.inhabited = {os.getpid()}
    assert hand_down("/top", double) == {"memory", "pids"}
    assert double.names("/top") == [LEAF]
    assert os.getpid() in double._members[f"/top/{LEAF}"]


def test_a_second_gateway_steps_down_beside_the_first():
    double = CgroupDouble()
    double.make(f"/top/{LEAF}")
    double.inhabited = {os.getpid()}
    assert hand_down("/top", double) == {"memory", "pids"}


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


# --- one group, where the kernel does not do as it should ----------------------------------------


class Odd(CgroupDouble):
    """Refuses some orders; whoever asks it for ever is told so."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[tuple[str, str]] = set()
        self.texts: dict[str, str] = {}
        self.left = 100

    def _once_more(self):
        self.left -= 1
        assert self.left, "it goes on and on"

    def read(self, path):
        self._once_more()
        name = path.rpartition("/")[2]
        return self.texts[name] if name in self.texts else super().read(path)

    def write(self, path, text):
        if (path.rpartition("/")[2], text) in self.refused:
            raise PermissionError(path)
        if (path.rpartition("/")[2], "") not in self.refused:
            super().write(path, text)

    def remove(self, path):
        self._once_more()
        if ("remove", "") in self.refused:
            raise OSError(path)
        super().remove(path)


@pytest.fixture
def odd(monkeypatch):
    for bound in ("EMPTY_S", "FROZEN_S", "LOOK_S"):
        monkeypatch.setattr(cgroups, bound, 0.0)
    return Odd()


@pytest.fixture
def group(odd):
    group = Group("/top/tenure.1-1.s1", odd)
    group.make()
    return group


def test_a_limit_that_the_group_does_not_have_is_none(group, odd):
    group.limit("memory.max", 5)
    group.close_swap()
    hand_down("/top", odd)
    group.limit("memory.max", 5)
    assert odd.read(f"{group.path}/memory.max") == "5"
    group.limit("memory.max", 0)
    assert odd.read(f"{group.path}/memory.max") == "max"


def test_one_that_cannot_be_moved_keeps_nobody_out(group, odd):
    me = os.getpid()
    odd.refused.add(("cgroup.procs", "1"))
    assert not group.admit([1, me])
    assert group.members() == {me}
    odd._members[group.path].clear()


def test_an_event_counts_once(group, odd):
    assert not group.happened("memory.events", "oom_kill")
    for count, told in ((1, True), (1, False), (3, True)):
        odd.happen(group.path, "memory.events", f"low 0\n\noom 7\noom_kill {count}\n")
        assert group.happened("memory.events", "oom_kill") is told


def test_what_does_not_stand_still_is_not_waited_for(group, odd):
    odd.texts["cgroup.events"] = "frozen 0\n"
    assert not group.freeze(frozen=True)
    odd.refused.add(("cgroup.freeze", "1"))
    assert not group.freeze(frozen=True)


def test_what_does_not_end_is_not_waited_for(group, odd):
    odd.texts["cgroup.procs"] = "5\n"
    odd.refused.add(("cgroup.kill", ""))
    assert not group.kill()
    odd.refused.add(("cgroup.kill", "1"))  # a kernel that has no such file
    assert not group.kill()


def test_what_cannot_be_removed_is_not_tried_for_ever(group, odd):
    odd.refused.add(("remove", ""))
    assert not group.remove()
    assert sweep("/top", lambda _: True, odd) == 0


def test_the_sweep_takes_groups_of_gateways_alone():
    double, asked = CgroupDouble(), []
    for name in (LEAF, "tenure.trial-5", "other.dead.s1", "tenure.dead.s1", "tenure.live.s1"):
        double.make(f"/top/{name}")
    assert sweep("/top", lambda name: bool(asked.append(name)) or name != "live", double) == 1
    assert sorted(double.names("/top")) == sorted(
        [LEAF, "tenure.trial-5", "other.dead.s1", "tenure.live.s1"]
    )
    assert asked == ["dead", "live"]


def test_an_order_that_is_refused_leaves_nothing_open():
    before = open_fds()
    with pytest.raises(OSError):
        REAL.write("/proc/self/oom_score_adj", "nonsense")
    assert open_fds() == before


def test_a_folder_of_ours_in_one_of_ours_was_not_given_to_us(tmp_path, monkeypatch):
    assert not REAL.given(str(tmp_path))
    monkeypatch.setattr(cgroups.os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert not REAL.given(str(tmp_path)), "nor is one of somebody else"


@pytest.mark.parametrize(("value", "given"), [(b"1", True), (b"0", False)])
def test_a_mark_says_whether_it_was_given(tmp_path, monkeypatch, value, given):
    monkeypatch.setattr(cgroups.os, "getxattr", lambda *_: value)
    assert REAL.given(str(tmp_path)) is given
