"""What is counted for whom, and what counts as lost."""

from __future__ import annotations

import os
import subprocess

import pytest

from tenure.processes import accounts
from tenure.processes.accounts import Account, Held, look, written_bytes
from tenure.processes.brand import number_of, numbered
from tenure.processes.containment import LABEL
from tenure.processes.procfs import Stat, read_stat
from tenure.processes.roll import Root

MARK = f"{os.getpid():08x}"
"""Of this run alone: all that runs on the machine is looked at."""
ONE = Held(number_of(MARK, 1), "one", None)


@pytest.fixture
def sleeper():
    """A process with that label, in a session of its own."""
    made = []

    def start(label, *argv):
        env = {**os.environ, LABEL: label}
        made.append(subprocess.Popen(argv or ["sleep", "600"], env=env, start_new_session=True))
        return made[-1]

    yield start
    for process in made:
        process.kill()
        process.wait()


def led_by(process, number=ONE.number):
    root = Root(process.pid, read_stat(process.pid).start_time, "", number)
    return Held(number, "one", root)


def test_only_our_mark_makes_a_stray(sleeper):
    lost = sleeper(f"test-0/gone/{MARK}-12345")
    sleeper("test-0/gone/deadbeef-12345")
    found = look([ONE], MARK)
    assert [stat.pid for stat in found.strays] == [lost.pid]
    assert found.accounts == {"one": Account()}


@pytest.mark.parametrize("count", ["", "x", "\N{SUPERSCRIPT TWO}", "-1", "9" * 5_000])
def test_a_label_that_somebody_has_made_up_names_nothing(sleeper, count):
    sleeper(f"test-0/gone/{MARK}-{count}")
    assert look([ONE], MARK).strays == ()


def test_who_descends_from_a_tree_is_of_it_whatever_its_label_says(sleeper):
    forged = sleeper(f"test-0/gone/{MARK}-12345")
    found = look([led_by(forged)], MARK)
    assert found.strays == ()
    assert found.owned == {forged.pid: ONE.number}


def test_who_has_no_mark_is_looked_at_no_further(sleeper):
    process = sleeper("")
    found = look([ONE], MARK)
    assert process.pid not in {stat.pid for stat in found.strays}
    assert process.pid not in found.owned


def test_we_ourselves_are_nobodys_while_a_child_is_being_started():
    """Its number is ours for that moment, and its tree may be newer than the list of what is held."""
    with numbered(ONE.number):
        assert look([], MARK).strays == ()
        assert look([ONE], MARK).owned == {}


def test_what_has_ended_is_not_counted_and_is_no_stray(sleeper):
    ended = sleeper(f"test-0/gone/{MARK}-12345", "true")
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert read_stat(ended.pid).gone
    number = number_of(MARK, 12345)
    assert look([led_by(ended, number)], MARK).accounts == {"one": Account()}
    with numbered(number):  # a label is lost at the end, a number is not
        another = sleeper("", "true")
    os.waitid(os.P_PID, another.pid, os.WEXITED | os.WNOWAIT)
    assert look([], MARK).strays == ()


def stat(pid, ppid=1, lead=0, start=50):
    return Stat(pid, "S", ppid, lead or pid, lead or pid, start)


def by_descent(root, *stats):
    return accounts._by_descent([Held(7, "one", root)], list(stats))


def test_another_process_by_the_pid_of_a_first_one_leads_nobody():
    root = Root(100, 50, "", 7)
    assert by_descent(root, stat(100), stat(101, 100, start=60)) == {100: 7, 101: 7}
    assert by_descent(root, stat(101, lead=100, start=60)) == {101: 7}, "the first one has ended"
    assert by_descent(root, stat(100, start=70), stat(101, 100, start=80)) == {}


def test_what_is_older_than_a_first_process_is_not_in_its_group():
    root = Root(100, 50, "", 7)
    assert by_descent(root, stat(100), stat(99, lead=100, start=40)) == {100: 7}


def test_descriptors_that_are_hidden_are_not_counted(monkeypatch):
    def hidden(_path):
        raise PermissionError

    monkeypatch.setattr(accounts.os, "listdir", hidden)
    use = accounts._use_of(os.getpid())
    assert (use.processes, use.fds) == (1, 0)
    assert use.rss_bytes > 1 << 20


def test_what_has_gone_has_written_nothing():
    assert written_bytes([2**22 + 1]) == 0
    assert accounts._use_of(2**22 + 1) == Account()


def test_a_number_of_another_gateway_makes_no_stray(sleeper):
    with numbered(number_of("deadbeef", 1)):
        other = sleeper("")
    assert other.pid not in {stat.pid for stat in look([ONE], MARK).strays}
