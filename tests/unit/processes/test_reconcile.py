"""The sweep of what an earlier run has left: whose it takes, and whom it spares."""

from __future__ import annotations

import os
import signal

import pytest

from tenure.processes import reconcile
from tenure.processes.cgroups import Place
from tenure.processes.procfs import Stat, read_stat
from tenure.processes.reconcile import SweepReport, sweep


class Machine:
    """What runs, as the sweep is told; nothing is ended, and nothing real is looked at."""

    def __init__(self) -> None:
        self.stats = [
            Stat(1, "S", 0, 1, 1, 1),
            read_stat(os.getpid())._replace(ppid=90),
            Stat(90, "S", 1, 90, 90, 5),
        ]
        self.labels: dict[int, str | None] = {}
        self.brands: dict[int, str] = {}
        self.looks = 1
        self.stays: set[int] = set()
        self.found: list[int] = []
        self.steps = None

    def add(self, pid, label="", ppid=1, state="S", brand=""):
        self.stats.append(Stat(pid, state, ppid, pid, pid, 50))
        self.labels[pid], self.brands[pid] = label, brand

    def end_all(self, find, steps):
        self.steps = steps
        for _ in range(self.looks):
            left = find()
        self.found = sorted(stat.pid for stat in left)
        return [stat for stat in left if stat.pid in self.stays]


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    monkeypatch.setattr(reconcile, "all_stats", lambda: machine.stats)
    monkeypatch.setattr(reconcile, "read_label", lambda pid, _: machine.labels.get(pid, ""))
    monkeypatch.setattr(reconcile, "read_brand", lambda pid: machine.brands.get(pid, ""))
    monkeypatch.setattr(reconcile, "end_all", machine.end_all)
    monkeypatch.setattr(reconcile, "_is_ours", lambda pid: pid != 301)
    return machine


def dead(instance):
    assert instance, "nobody is asked about"
    return instance.startswith("dead")


def test_what_the_dead_have_left_is_found_by_label_or_brand(machine):
    machine.add(100, "dead1/s1/0123abcd-1")
    machine.add(101, brand="dead1")
    machine.add(102, "live1/s1/0123abcd-1")
    machine.add(103, brand="live1")
    machine.add(104)
    machine.add(105, "live1/s1/0123abcd-1", brand="dead1")  # a label goes before a brand
    assert sweep(dead).ended == (100, 101)
    assert machine.steps[0][0] == signal.SIGTERM


def test_what_is_below_goes_along_unless_it_belongs_to_the_living(machine):
    machine.add(100, "dead1/s1/0123abcd-1")
    machine.add(101, ppid=100)
    machine.add(102, "live1/s1/0123abcd-1", ppid=100)
    machine.add(103, brand="live1", ppid=100)
    machine.add(104, None, ppid=101)
    assert sweep(dead).ended == (100, 101, 104)


def test_we_and_who_has_started_us_are_spared_whatever_our_labels_say(machine):
    for pid in (os.getpid(), 90, 1):
        machine.labels[pid] = "dead1/s1/0123abcd-1"
    machine.add(100, ppid=os.getpid())
    assert sweep(dead) == SweepReport((), (), 0)


def test_what_has_ended_is_left_to_who_reaps_it(machine):
    machine.add(100, "dead1/s1/0123abcd-1", state="Z")
    machine.add(102, "dead1/s1/0123abcd-1")
    machine.add(103, ppid=102, state="Z")
    assert sweep(dead).ended == (102,)


def test_an_instance_is_asked_about_once(machine):
    asked = []
    for pid in range(100, 120):
        machine.add(pid, "dead1/s1/0123abcd-1")
    machine.looks = 3
    sweep(lambda instance: bool(asked.append(instance)) or True)
    assert asked == ["dead1"]


def test_those_of_this_user_that_hide_are_counted_once_and_left(machine):
    machine.add(300, None)
    machine.add(301, None)  # another user's
    machine.looks = 3
    assert sweep(dead) == SweepReport((), (), 1)


def test_what_survives_was_not_ended(machine):
    machine.add(100, "dead1/s1/0123abcd-1")
    machine.add(101, "dead1/s1/0123abcd-1")
    machine.stays = {101}
    assert sweep(dead) == SweepReport((100,), (101,), 0)


def test_groups_are_swept_after_it_and_only_where_there_are_any(monkeypatch):
    done = []
    monkeypatch.setattr(
        reconcile, "sweep", lambda _: done.append("sweep") or SweepReport((), (), 0)
    )
    monkeypatch.setattr(reconcile.cgroups, "sweep", lambda *at: done.append(at[0]) or 3)
    for place, groups in ((Place("", "none here"), 0), (Place("/top"), 3)):
        monkeypatch.setattr(reconcile.cgroups, "look_for_place", lambda found=place: found)
        assert reconcile._sweep_all(dead).groups == groups
    assert done == ["sweep", "sweep", "/top"]
