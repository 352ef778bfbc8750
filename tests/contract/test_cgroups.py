"""Control groups: one contract, for the machine's and for the double."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from support.cgroup import Hierarchy, hierarchy
from tenure.processes.cgroups import Group, sweep
from tenure.processes.procfs import read_stat

BOUND_S = 30.0
SWARM = "for n in 1 2 3 4 5; do setsid sh -c 'sleep 600 & sleep 600' & done; echo up; wait"


@pytest.fixture(params=["real", "double"])
def there(request: pytest.FixtureRequest) -> Hierarchy:
    return hierarchy(request.param)


@pytest.fixture
def group(there: Hierarchy) -> Iterator[Group]:
    made = Group(f"{there.place}/tenure.test-{os.getpid():08x}.s1", there.files)
    made.make()
    yield made
    assert made.remove()


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    made: list[subprocess.Popen[str]] = []

    def run(*argv: str) -> subprocess.Popen[str]:
        made.append(
            subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        return made[-1]

    yield run
    for process in made:
        process.kill()
        process.communicate()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_what_members_start_are_members_and_all_end_at_once(group, start):
    shell = start("sh", "-c", f"read go; {SWARM}")
    assert group.admit([shell.pid])
    print("go", file=shell.stdin, flush=True)
    assert shell.stdout.readline() == "up\n"
    until(lambda: len(group.members()) == 16)
    members = group.members()
    assert group.kill()
    assert group.members() == set()
    until(lambda: all((stat := read_stat(pid)) is None or stat.gone for pid in members))


def test_what_is_over_is_no_failure_and_no_member(group, start):
    process = start("true")
    process.wait()
    assert group.admit([process.pid])
    assert group.members() == set()


def test_a_group_that_is_gone_takes_nobody(there, start):
    process = start("sleep", "600")
    gone = Group(f"{there.place}/tenure.test-{os.getpid():08x}.gone", there.files)
    assert not gone.admit([process.pid])
    assert gone.members() == set()
    assert gone.remove()
    assert process.poll() is None


def test_all_of_it_stands_still_until_it_goes_on(group, start):
    counter = start("sh", "-c", "read go; while :; do echo x; done")
    group.admit([counter.pid])
    print("go", file=counter.stdin, flush=True)
    assert counter.stdout.readline() == "x\n"
    assert group.freeze(frozen=True)
    os.set_blocking(counter.stdout.fileno(), False)
    while True:  # what it has written before
        try:
            if not os.read(counter.stdout.fileno(), 1 << 20):
                break
        except BlockingIOError:
            break
    time.sleep(0.02)
    with pytest.raises(BlockingIOError):
        os.read(counter.stdout.fileno(), 1)
    assert group.freeze(frozen=False)
    until(lambda: _reads(counter.stdout.fileno()))


def _reads(fd: int) -> bool:
    try:
        return bool(os.read(fd, 1))
    except BlockingIOError:
        return False


def test_what_stands_still_can_be_ended(group, start):
    process = start("sleep", "600")
    group.admit([process.pid])
    assert group.freeze(frozen=True)
    assert group.kill()
    assert process.wait(BOUND_S) == -9


def test_removing_ends_what_is_in_it_and_in_groups_within(there, start):
    outer = Group(f"{there.place}/tenure.test-{os.getpid():08x}.s2", there.files)
    inner = Group(f"{outer.path}/of-its-own", there.files)
    outer.make()
    inner.make()
    one, two = start("sleep", "600"), start("sleep", "600")
    outer.admit([one.pid])
    inner.admit([two.pid])
    with pytest.raises(OSError):
        there.files.remove(outer.path)
    assert outer.remove()
    assert (one.wait(BOUND_S), two.wait(BOUND_S)) == (-9, -9)
    assert outer.path.rpartition("/")[2] not in there.files.names(there.place)


def test_the_sweep_ends_the_groups_of_dead_gateways_alone(there, start):
    dead, live = f"dead{os.getpid() % 1000:03d}-00000000", f"live{os.getpid() % 1000:03d}-00000000"
    groups = [Group(f"{there.place}/tenure.{name}.s1", there.files) for name in (dead, live)]
    processes = [start("sleep", "600") for _ in groups]
    for one, process in zip(groups, processes, strict=True):
        one.make()
        one.admit([process.pid])
    try:
        assert sweep(there.place, lambda name: name == dead, there.files) == 1
        assert processes[0].wait(BOUND_S) == -9
        assert processes[1].poll() is None
        assert groups[1].members() == {processes[1].pid}
    finally:
        assert groups[1].remove()


def test_limits_are_kept_where_their_controllers_are(there, group):
    group.limit("pids.max", 40)
    group.limit("memory.max", 0)
    if "pids" in there.kernel:
        assert there.files.read(f"{group.path}/pids.max").strip() == "40"
    if "memory" in there.kernel:
        assert there.files.read(f"{group.path}/memory.max").strip() == "max"


def test_the_kernel_stops_a_swarm_and_counts_it(there, group, start):
    if "pids" not in there.kernel or not there.place.startswith("/sys"):
        pytest.skip("the controller of processes is not to be had here")
    group.limit("pids.max", 5)
    shell = start("bash", "-c", "read go; for n in $(seq 9); do sleep 600 & done; wait")
    group.admit([shell.pid])
    print("go", file=shell.stdin, flush=True)
    until(lambda: group.happened("pids.events", "max"))
    assert len(group.members()) <= 5
