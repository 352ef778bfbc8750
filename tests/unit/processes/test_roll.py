"""The roll: whose a process is, and that a look reads what is new alone."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from support.pids import Pid
from tenure.processes import procfs, roll
from tenure.processes.brand import number_of
from tenure.processes.procfs import Stat, pids_now, read_stat
from tenure.processes.roll import Roll, Root

MARK = "0123abcd"
ONE, TWO = number_of(MARK, 1), number_of(MARK, 2)


class Machine:
    """What runs, as the roll is told; it counts what is read."""

    def __init__(self) -> None:
        self.me = read_stat(os.getpid())
        self.runs: dict[int, tuple[int, Stat]] = {self.me.pid: (1, self.me)}
        self.labels: dict[int, str] = {}
        self.numbers: dict[int, int] = {}
        self.read: list[int] = []
        self.asked: list[int] = []
        self.entries = 1
        self.on_look = lambda: None

    def start(self, pid, ppid=1, *, session=None, ago=-1, program=7, state="S"):
        self.entries += 1
        stat = Stat(
            pid, state, ppid, session or pid, session or pid, self.me.start_time - ago, program
        )
        self.runs[pid] = self.entries, stat
        return stat

    def change(self, pid, **to):
        entry, stat = self.runs[pid]
        self.runs[pid] = entry, stat._replace(**to)

    def pids_now(self):
        self.on_look()
        return {pid: entry for pid, (entry, _) in self.runs.items()}

    def read_stat(self, pid):
        self.read.append(pid)
        return self.runs[pid][1] if pid in self.runs else None

    def read_label(self, pid, _name):
        self.asked.append(pid)
        return self.labels.get(pid, "")

    def read_number(self, pid):
        return self.numbers.get(pid, 0)


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    for name in ("pids_now", "read_stat", "read_label", "read_number"):
        monkeypatch.setattr(roll, name, getattr(machine, name))
    return machine


def lead(a_roll, stat, number=ONE):
    root = Root(stat.pid, stat.start_time, "", number)
    a_roll.lead(root)
    return root


def pids(stats):
    return [stat.pid for stat in stats]


def test_a_tree_is_found_by_descent_session_label_and_number(machine):
    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100))
    machine.start(101, 100)
    machine.start(102, 101, session=102)
    machine.start(103, session=100)
    machine.start(104)
    machine.labels[104] = f"inst/owner/{MARK}-1"
    machine.start(105)
    machine.numbers[105] = ONE
    machine.start(106, 105)
    machine.start(900)
    machine.labels[900] = f"inst/owner/{MARK}-2"
    machine.start(901)
    machine.labels[901] = "inst/owner/deadbeef-1"
    machine.numbers[901] = ONE  # whoever has a label says by that whose it is
    machine.start(902)
    assert sorted(pids(a_roll.members(root))) == [100, 101, 102, 103, 104, 105, 106]
    found = pids(a_roll.members(root))
    assert found.index(100) < found.index(101) < found.index(102)
    assert found.index(105) < found.index(106)


def test_what_is_settled_is_not_read_again(machine):
    a_roll = Roll(MARK)
    one = lead(a_roll, machine.start(100))
    lead(a_roll, machine.start(200), TWO)
    machine.start(201, 200, session=201)
    machine.start(50, ago=5)
    machine.start(60, ppid=2)
    machine.start(900)
    a_roll.members(one)
    machine.read.clear()
    machine.asked.clear()
    assert pids(a_roll.members(one)) == [100]
    assert set(machine.read) == {100, 900}  # its own, and who may still put on a mark
    assert machine.asked == []


def test_who_was_seen_stays_of_its_tree_whatever_it_takes_off(machine):
    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100))
    machine.start(101, 100)
    a_roll.members(root)
    del machine.runs[100]
    machine.change(101, ppid=1, session=101, pgrp=101, program=8)
    assert pids(a_roll.members(root)) == [101]
    machine.start(102, 101, session=102)
    assert pids(a_roll.members(root)) == [101, 102]


def test_a_process_that_gets_another_entry_keeps_its_trees_and_another_process_does_not(machine):
    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100))
    machine.start(101, 100, session=100)
    assert pids(a_roll.members(root)) == [100, 101]
    machine.change(101, ppid=1, session=101, pgrp=101, program=8)
    for number in (98, 99):  # the kernel was short of memory, and made its entry anew
        machine.runs[101] = number, machine.runs[101][1]
        assert sorted(pids(a_roll.members(root))) == [100, 101]
    machine.start(101, ago=-50)
    assert pids(a_roll.members(root)) == [100]


def test_a_mark_that_is_put_on_by_a_later_program_counts(machine):
    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100))
    machine.start(101)
    machine.start(102, 101)
    assert pids(a_roll.members(root)) == [100]
    machine.labels[101] = f"inst/owner/{MARK}-1"
    machine.change(101, program=8)
    assert sorted(pids(a_roll.members(root))) == [100, 101, 102]


@pytest.mark.parametrize("same_entry", [False, True])
def test_another_process_by_the_same_pid_is_not_of_the_tree(machine, same_entry):
    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100))
    machine.start(101, 100)
    assert pids(a_roll.members(root)) == [100, 101]
    entry = machine.runs[101][0]
    machine.start(101, ago=-50)
    if same_entry:
        machine.runs[101] = entry, machine.runs[101][1]
    assert pids(a_roll.members(root)) == [100]


def test_a_pid_that_was_anothers_can_be_of_the_tree(machine):
    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100))
    machine.start(101, ago=5)
    assert pids(a_roll.members(root)) == [100]
    machine.start(101, 100)
    assert pids(a_roll.members(root)) == [100, 101]


def test_a_reused_session_id_is_not_ours(machine):
    """A new process has the pid: the old session must be empty, so nothing matches by session."""
    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100))
    del machine.runs[100]
    machine.start(100, ago=-100)
    machine.start(101, session=100, ago=-101)
    assert a_roll.members(root) == []


def test_what_is_older_than_the_first_process_is_not_in_its_session(machine):
    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100, ago=-10))
    machine.start(101, session=100, ago=-9)
    assert pids(a_roll.members(root)) == [100]


def test_a_tree_that_was_let_go_leads_nobody(machine):
    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100))
    a_roll.forget(root)
    assert a_roll.members(root) == []
    again = lead(a_roll, machine.start(100, ago=-20), TWO)
    a_roll.forget(root)  # another tree's first process has that pid meanwhile
    assert pids(a_roll.members(again)) == [100]


def test_zombies_and_we_ourselves_are_no_members(machine):
    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100))
    machine.start(101, 100, state="Z")
    machine.change(
        machine.me.pid, session=100, pgrp=100, start_time=machine.runs[100][1].start_time
    )
    assert pids(a_roll.members(root)) == [100]


def test_without_numbers_of_entries_everything_is_read_each_time(machine):
    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100))
    machine.start(101, 100)
    machine.start(50, ago=5)
    plain = machine.pids_now
    roll.pids_now = lambda: dict.fromkeys(plain(), 0)  # the fixture puts it back
    a_roll.members(root)
    machine.read.clear()
    machine.start(50, 100)
    assert pids(a_roll.members(root)) == [100, 101, 50]


def test_entries_that_share_a_number_have_none(monkeypatch):
    class Entry:
        def __init__(self, name, inode):
            self.name, self.inode = name, lambda: inode

    class Listing(list):
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    for inodes, expected in (((1, 1), {10: 0, 11: 0}), ((1, 2), {10: 1, 11: 2})):
        listing = Listing([Entry("10", inodes[0]), Entry("11", inodes[1]), Entry("self", 1)])
        monkeypatch.setattr(procfs.os, "scandir", lambda _, found=listing: found)
        assert pids_now() == expected


def test_who_forks_and_ends_during_a_look_leaves_nobody_behind(machine):
    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100))
    machine.start(101, 100)
    assert pids(a_roll.members(root)) == [100, 101]
    del machine.runs[100]

    def fork_and_end():
        """Right after the entries were listed."""
        if 101 in machine.runs and machine.runs[101][1].state != "Z":
            machine.start(102, 1)
            machine.numbers[102] = ONE
            machine.change(101, state="Z")

    plain = machine.pids_now
    roll.pids_now = lambda: (plain(), fork_and_end())[0]
    assert pids(a_roll.members(root)) == [102]


async def test_who_asks_during_a_look_shares_the_next_and_never_the_present_one(machine):
    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100))
    began, go = threading.Event(), threading.Event()
    looks = []

    def on_look():
        looks.append(dict(machine.runs))
        if len(looks) == 1:
            began.set()
            assert go.wait(30)

    plain = machine.pids_now
    machine.on_look = on_look
    listing = {}

    def pids_now_then():
        listing.update(plain())  # what ran when the look began
        return dict(listing)

    roll.pids_now = pids_now_then
    first = asyncio.ensure_future(asyncio.to_thread(a_roll.members, root))
    await asyncio.to_thread(began.wait, 10)
    later = [asyncio.ensure_future(asyncio.to_thread(a_roll.members, root)) for _ in range(3)]
    while a_roll._tickets.__reduce__()[1][0] < 6:  # 1: first, 2: its look, 3-5: the others
        await asyncio.sleep(0)
    machine.start(101, 100)
    go.set()
    await first
    assert [pids(await one) for one in later] == [[100, 101]] * 3
    assert len(looks) == 2


# --- real processes -------------------------------------------------------------------------------


@pytest.mark.timeout(20)
def test_an_exec_is_another_program():
    script = "import os; input(); os.execv('/bin/sleep', ['sleep', '60'])"
    one = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
    try:
        while not (before := read_stat(one.pid).program):
            pass  # in the middle of its first exec
        assert read_stat(one.pid).program == before
        one.stdin.write(b"\n")
        one.stdin.close()
        while Path(f"/proc/{one.pid}/comm").read_text() != "sleep\n":
            pass
        while not (after := read_stat(one.pid).program):
            pass
        assert after != before
    finally:
        one.kill()
        one.wait()


def test_entries_are_the_same_for_a_process_and_another_for_each(monkeypatch):
    """What the roll takes from the kernel."""
    children = [subprocess.Popen(["sleep", "60"]) for _ in range(5)]
    try:
        first, second = pids_now(), pids_now()
        assert {p.pid: first[p.pid] for p in children} == {p.pid: second[p.pid] for p in children}
        assert len({first[p.pid] for p in children} - {0}) == 5
        assert set(first) <= {*second} | {*first} and os.getpid() in first
    finally:
        for child in children:
            child.kill()
            child.wait()


HIDES = """
import os, resource, sys
if os.fork():
    sys.stdin.readline()
    os._exit(0)
os.read(int(sys.argv[1]), 1)  # until it was seen
os.setsid()
resource.setrlimit(resource.RLIMIT_RSS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
os.execve("/bin/sleep", ["sleep", "600"], {})
"""


async def test_who_hides_from_every_mark_ends_with_its_tree_once_it_was_seen(
    world, spawner, watch, tmp_path
):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    script = HIDES.replace("int(sys.argv[1])", f"os.open({str(gate)!r}, os.O_RDONLY)")
    process = await spawner.spawn(world, [sys.executable, "-c", script], stdin="pipe", grace_s=0.4)
    async with asyncio.timeout(30):
        while len(members := await asyncio.to_thread(process.members)) < 2:
            await asyncio.sleep(0.01)
    hidden = watch(next(stat.pid for stat in members if stat.pid != process.pid))
    gate.write_bytes(b"x")
    async with asyncio.timeout(30):
        while Path(f"/proc/{hidden.pid}/comm").read_text() != "sleep\n":
            await asyncio.sleep(0.01)
    await process.write(b"\n")
    await process.wait()
    assert resource.prlimit(hidden.pid, resource.RLIMIT_RSS)[0] == resource.RLIM_INFINITY
    await process.stop()
    assert not hidden.runs


# --- more of who is told from whom ---------------------------------------------------------------


def test_who_has_ended_is_forgotten(machine):
    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100))
    machine.start(101, 100)
    machine.start(900)
    a_roll.members(root)
    assert {101, 900} <= a_roll._known.keys()
    del machine.runs[101], machine.runs[900]
    a_roll.members(root)
    left = {100, os.getpid()}
    assert a_roll._known.keys() == left
    assert a_roll._settled.keys() == left
    assert not a_roll._marks


@pytest.mark.parametrize("label", ["x", "\N{SUPERSCRIPT TWO}", "9" * 5_000])
def test_a_label_that_somebody_has_made_up_stops_no_look(machine, label):
    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100))
    machine.start(900)
    machine.labels[900] = f"inst/owner/{MARK}-{label}"
    assert pids(a_roll.members(root)) == [100]


def test_who_has_started_us_is_no_member(machine):
    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100))
    machine.start(os.getppid(), 100)
    assert pids(a_roll.members(root)) == [100]


def test_a_family_is_put_on_the_roll_parents_first(machine):
    """In whatever order it is read."""
    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100))
    family = [100, *range(300, 340, 2), *range(299, 259, -2)]
    for parent, child in itertools.pairwise(family):
        machine.start(child, parent)
    assert pids(a_roll.members(root)) == family


def test_a_family_that_was_read_while_a_pid_was_reused_has_no_end_of_its_own(machine):
    """Each is the parent of the other: they were not read at one moment."""
    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100))
    machine.start(900, Pid(901))
    machine.start(901, Pid(900))
    assert pids(a_roll.members(root)) == [100]


def test_a_look_that_fails_is_none_and_loses_nobody(machine, monkeypatch):
    def refuse(_pid, _name):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    a_roll = Roll(MARK)
    root = lead(a_roll, machine.start(100))
    machine.runs[104] = 0, machine.start(104)  # never settled
    machine.labels[104] = f"inst/owner/{MARK}-1"
    assert sorted(pids(a_roll.members(root))) == [100, 104]
    machine.change(104, program=8)
    machine.labels.clear()  # it hides now
    before = a_roll._begun
    with monkeypatch.context() as scarce:
        scarce.setattr(roll, "read_label", refuse)
        with pytest.raises(OSError, match="open files"):
            a_roll.members(root)
    assert a_roll._begun == before
    assert sorted(pids(a_roll.members(root))) == [100, 104]
