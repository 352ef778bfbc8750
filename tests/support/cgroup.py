"""Where control groups are tried: this machine's, where they may be written, and a double's."""

from __future__ import annotations

import os
from typing import NamedTuple

import pytest

from tenure.processes.cgroups import REAL, Files, find_place, hand_down
from tenure.testing.cgroup import CgroupDouble

NO_CGROUP = "no cgroup v2 may be written here"
"""No package brings one, so it is no failure anywhere: the double runs the same tests."""


class Hierarchy(NamedTuple):
    """A place for groups, and what of it."""

    files: Files
    place: str
    kernel: frozenset[str]
    """The controllers below it."""


def hierarchy(kind: str) -> Hierarchy:
    """One of each kind; the test is skipped where there is no real one."""
    if kind == "double":
        double = CgroupDouble()
        return Hierarchy(double, double.top, hand_down(double.top, double))
    place = real_place()
    if not place:
        pytest.skip(NO_CGROUP)
    return Hierarchy(REAL, place, hand_down(place))


def real_place() -> str:
    """This machine's; empty if there is none."""
    try:
        mounts, own = REAL.read("/proc/self/mountinfo"), REAL.read("/proc/self/cgroup")
    except OSError:
        return ""
    return find_place(mounts, own).path


def in_group(pid: int, path: str) -> bool:
    """Whether the system says that a process is in a group of its own hierarchy."""
    try:
        lines = REAL.read(f"/proc/{pid}/cgroup").splitlines()
    except OSError:
        return False
    return any(line.startswith("0::") and line.endswith(os.path.basename(path)) for line in lines)
