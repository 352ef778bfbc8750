"""The guard, with a small script in the gateway's place."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys

import pytest

from tenure.processes import guard
from tenure.processes.procfs import Stat
from tenure.processes.reconcile import sweep

SRC = os.path.dirname(os.path.dirname(sys.modules["tenure"].__file__))

GATEWAY = """
import os, sys
sys.path.insert(0, %r)
from tenure.processes.guard import start_guard, end_descendants
guarded = start_guard()
assert not {"asyncio", "msgspec", "pathlib", "tenure.errors"} & set(sys.modules) - %r
import signal, subprocess, time
INSTANCE = sys.argv[1]
env = {**os.environ, "TENURE_OWNER": INSTANCE + "/s/1"}
daemon = '''
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.write(int(sys.argv[1]), str(os.getpid()).encode() + bytes([10]))
os.closerange(0, 10)
time.sleep(60)
'''
def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
def start():
    reader, writer = os.pipe()
    plain = subprocess.Popen(["sleep", "60"], start_new_session=True, env=env,
                             stdout=subprocess.DEVNULL)
    for argv in ([sys.executable], ["env", "-i", sys.executable]):
        subprocess.run([*argv, "-S", "-c", daemon, str(writer)], env=env, pass_fds=[writer],
                       stdout=subprocess.DEVNULL, check=True)
    with os.fdopen(reader) as lines:
        tell("pids", plain.pid, *(int(lines.readline()) for _ in range(2)))
""" % (SRC, set(sys.modules) & {"pathlib"})

WAITS = (
    GATEWAY
    + """
start()
signal.signal(signal.SIGTERM, lambda *_: (tell("got TERM"), os._exit(5)))
signal.signal(signal.SIGINT, lambda *_: tell("got INT"))
tell("ready", guarded.guard_pid, os.getpid())
os.read(guarded.alive_fd, 1)
tell("guard gone")
left = end_descendants()
tell("left", len(left))
"""
)


def lines_of(process, *, until: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    while until not in found:
        line = process.stdout.readline().decode()
        assert line, f"the gateway ended before it said {until!r}: {found}"
        word, *rest = line.split()
        found[word] = rest
    return found


@pytest.fixture
def gateway(start, watch):
    """A guarded gateway with a child, a daemon, and a daemon without environment."""

    class Gateway:
        process = start(WAITS, "dead1")
        told = lines_of(process, until="ready")
        guard, self_ = map(watch, map(int, told["ready"]))
        things = list(map(watch, map(int, told["pids"])))

    assert Gateway.guard.pid == Gateway.process.pid
    yield Gateway
    for one in [Gateway.self_, *Gateway.things]:
        if one.runs:
            os.kill(one.pid, signal.SIGKILL)


def test_kill_of_the_gateway(gateway):
    os.kill(gateway.self_.pid, signal.SIGKILL)
    assert all(one.gone(2) for one in gateway.things)
    assert gateway.process.wait(30) == -signal.SIGKILL


def test_kill_of_the_guard(gateway):
    gateway.guard.pid and os.kill(gateway.guard.pid, signal.SIGKILL)
    assert lines_of(gateway.process, until="left")["left"] == ["0"]
    assert all(one.gone(2) for one in gateway.things)
    assert gateway.self_.gone(2)


def test_kill_of_both_then_the_next_start_sweeps(gateway):
    for one in (gateway.guard, gateway.self_):
        os.kill(one.pid, signal.SIGSTOP)  # neither may act between the two kills
    for one in (gateway.guard, gateway.self_):
        os.kill(one.pid, signal.SIGKILL)
    plain, daemon, bare = gateway.things
    assert gateway.self_.gone()
    assert plain.runs and daemon.runs and bare.runs
    assert sweep(lambda instance: instance == "another").ended == ()
    report = sweep(lambda instance: instance == "dead1")
    assert set(report.ended) == {plain.pid, daemon.pid}
    assert report.survived == ()
    assert plain.gone(2) and daemon.gone(2)
    assert bare.runs  # without a label nothing attributes it: it outlives two kills at one instant


def test_a_live_instance_keeps_its_children(gateway):
    assert sweep(lambda instance: False).ended == ()
    assert all(one.runs for one in gateway.things)


def test_term_to_the_launched_process_reaches_the_gateway(gateway):
    os.kill(gateway.guard.pid, signal.SIGTERM)
    assert lines_of(gateway.process, until="got")["got"] == ["TERM"]
    assert gateway.process.wait(30) == 5
    assert all(one.gone(2) for one in gateway.things)


def test_the_exit_status_and_output_are_the_gateways(start):
    process = start(GATEWAY + "tell('last'); sys.exit(9)", "i")
    assert process.stdout.read() == b"last\n"
    assert process.wait(30) == 9


def test_output_ends_with_the_gateway_while_the_guard_still_works(start, watch):
    """A reader of our output must not wait for the guard: its copies are closed at once."""
    hold = GATEWAY + (
        "child = subprocess.Popen([sys.executable, '-S', '-c', "
        "'import signal,time,os; signal.signal(15, 1); os.write(1, b\"x\"); time.sleep(60)'], "
        "stdout=subprocess.PIPE); child.stdout.read(1); tell('up', child.pid); os._exit(0)"
    )
    process = start(hold, "i")
    said, pid = process.stdout.readline().split()
    child = watch(int(pid))
    assert (said, process.stdout.read()) == (b"up", b"")
    assert child.runs  # the guard gives it its time to end by TERM
    assert process.wait(30) == 0


def test_the_guard_reaps_orphans(start):
    """Killed children of a killed gateway leave no zombie at the guard."""
    process = start(GATEWAY + "start(); tell('done'); os.read(0, 1)", "i")
    lines_of(process, until="done")
    process.stdin.close()
    assert process.wait(30) == 0


class Terminal:
    """A pseudo-terminal with a guarded gateway as its foreground job."""

    def __init__(self, source: str, tmp_path) -> None:
        script = tmp_path / "tty.py"
        script.write_text(source)
        pid, self.fd = pty.fork()
        if pid == 0:
            os.execv(sys.executable, [sys.executable, str(script), "i"])
        self.pid, self._seen = pid, b""

    def expect(self, word: bytes) -> None:
        """Read up to that word; what came with it is for the next one."""
        while word not in self._seen:
            assert select.select([self.fd], [], [], 30)[0], self._seen
            self._seen += os.read(self.fd, 4096)
        self._seen = self._seen.partition(word)[2]


def test_ctrl_c_of_a_terminal_reaches_the_gateway_once(tmp_path):
    source = GATEWAY + (
        "hits = []\n"
        "signal.signal(2, lambda *_: (hits.append(1), tell('hit')))\n"
        "signal.signal(10, lambda *_: (tell('hits', len(hits)), os._exit(0)))\n"
        "tell('ready')\n"
        "while True: signal.pause()\n"
    )
    terminal = Terminal(source, tmp_path)
    try:
        terminal.expect(b"ready")
        os.write(terminal.fd, b"\x03")
        terminal.expect(b"hit")
        # The guard takes its signals in order: what it makes of Ctrl-C comes before this one.
        os.kill(terminal.pid, signal.SIGUSR1)
        terminal.expect(b"hits 1")
        assert os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]) == 0
    finally:
        os.close(terminal.fd)


def test_suspending_the_gateway_suspends_the_job(tmp_path):
    """A shell waits for the guard's stop; continuing the job continues both."""
    source = GATEWAY + (
        "tell('ready'); sys.stdin.readline()\n"
        "os.kill(os.getpid(), signal.SIGTSTP); tell('continued'); os._exit(4)\n"
    )
    outer = (
        "import os, signal, subprocess, sys\n"
        "job = subprocess.Popen([sys.executable, sys.argv[1], 'i'], process_group=0)\n"
        "signal.signal(signal.SIGTTOU, signal.SIG_IGN)\n"
        "os.tcsetpgrp(0, job.pid)\n"
        "pid, status = os.waitpid(job.pid, os.WUNTRACED)\n"
        "print('stopped', os.WIFSTOPPED(status), flush=True)\n"
        "os.killpg(job.pid, signal.SIGCONT)\n"
        "print('exit', job.wait(), flush=True)\n"
    )
    inner = tmp_path / "inner.py"
    inner.write_text(source)
    terminal = Terminal(outer.replace("sys.argv[1]", repr(str(inner))), tmp_path)
    try:
        terminal.expect(b"ready")
        os.write(terminal.fd, b"go\n")
        terminal.expect(b"stopped True")
        terminal.expect(b"exit 4")
        os.waitpid(terminal.pid, 0)
    finally:
        os.close(terminal.fd)


def test_importing_the_guard_stays_small():
    probe = (
        f"import sys; sys.path.insert(0, {SRC!r}); before = set(sys.modules)\n"
        "import tenure.processes.guard\n"
        "print(len(set(sys.modules) - before), 'asyncio' in sys.modules, 'subprocess' in sys.modules)"
    )
    shown = subprocess.run(
        [sys.executable, "-S", "-c", probe], capture_output=True, text=True, check=True
    ).stdout.split()
    assert int(shown[0]) < 60
    assert shown[1:] == ["False", "False"]


def test_the_end_of_a_terminal_ends_the_gateway(tmp_path):
    source = """
import signal
from tenure.processes.guard import start_guard
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may have it ignored
start_guard()
print("ready", flush=True)
while True:
    signal.pause()
"""
    terminal = Terminal(source, tmp_path)
    terminal.expect(b"ready")
    watched = os.pidfd_open(terminal.pid)
    try:
        os.close(terminal.fd)
        told = bool(select.select([watched], [], [], 20)[0])
    finally:
        os.close(watched)
        os.kill(terminal.pid, signal.SIGKILL)  # whose end tells the gateway in any case
        status = os.waitpid(terminal.pid, 0)[1]
    assert told and os.waitstatus_to_exitcode(status) == -signal.SIGHUP


# --- what the two have of each other --------------------------------------------------------------


def test_a_gateway_begins_with_the_signals_of_who_launched_it_and_adopts_orphans(start):
    source = GATEWAY + (
        "import ctypes\n"
        "adopts = ctypes.c_int()\n"
        "ctypes.CDLL(None).prctl(37, ctypes.byref(adopts), 0, 0, 0)\n"
        "tell(adopts.value, *sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))))\n"
    )
    process = start(source, "i")
    ours = sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, [])))
    assert [int(word) for word in process.stdout.read().split()] == [1, *ours]
    assert process.wait(30) == 0


def test_the_gateway_has_one_end_of_the_pipe_alone(start):
    """With the other it would never hear that the guard has gone."""
    source = GATEWAY + (
        "at = lambda fd: os.readlink(f'/proc/self/fd/{fd}')\n"
        "ends = [fd for fd in range(100) if os.path.exists(f'/proc/self/fd/{fd}')"
        " and at(fd) == at(guarded.alive_fd)]\n"
        "tell(ends == [guarded.alive_fd], os.get_inheritable(guarded.alive_fd))\n"
    )
    process = start(source, "i")
    assert process.stdout.read() == b"True False\n"
    assert process.wait(30) == 0


COUNTS = (
    "import os, signal; held = os.dup(1)\n"
    + GATEWAY
    + """
heard = []
signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
signal.signal(signal.SIGUSR2, lambda *_: tell("heard", len(heard)))
os.kill(guarded.guard_pid, signal.SIGUSR1)
tell("ready")
os.read(0, 1)
"""
)


def test_what_the_gateway_sends_to_its_guard_does_not_come_back(start):
    process = start(COUNTS, "i")
    lines_of(process, until="ready")
    process.send_signal(signal.SIGUSR2)  # told after the first, which has the lower number
    assert lines_of(process, until="heard")["heard"] == ["0"]
    # What it passes on, it does so after it has let go of everything.
    assert len(os.listdir(f"/proc/{process.pid}/fd")) == 4, "its three, and the pipe's end"
    process.stdin.close()
    assert process.wait(30) == 0


def test_a_guard_that_fails_runs_nothing_of_the_gateway(start):
    source = GATEWAY.replace(
        "guarded = start_guard()",
        "import tenure.processes.guard as guarding\n"
        "guarding._wait_for = lambda *_: 1 / 0\n"
        "guarded = start_guard()",
    )
    process = start(source + "tell('once')", "i")
    assert process.stdout.read() == b"once\n"
    assert process.wait(30) == 70


HANGS_UP = """
import os, signal, sys
from tenure.processes.guard import start_guard
tell = lambda word: os.write(int(sys.argv[2]), word)
signal.signal(signal.SIGHUP, lambda *_: tell(b"hangup "))
signal.signal(signal.SIGUSR1, lambda *_: (tell(b"end"), os._exit(0)))
start_guard()
tell(b"ready")
while True:
    signal.pause()
"""


def test_the_end_of_a_terminal_is_passed_on_to_the_gateway(tmp_path):
    """The system tells the leader of the session alone, which is the guard."""
    script = tmp_path / "hangs_up.py"
    script.write_text(HANGS_UP)
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, str(script), "i", str(writer)])
    os.close(writer)
    said = b""
    while b"ready" not in said:
        more = os.read(reader, 100)
        assert more, "it has ended"
        said += more
    os.close(fd)
    os.kill(pid, signal.SIGUSR1)  # told after the hangup, which has the lower number
    said = b""
    while more := os.read(reader, 100):
        said += more
    os.close(reader)
    os.waitpid(pid, 0)
    assert said == b"hangup end"


# --- its parts ------------------------------------------------------------------------------------

GATEWAY_PID, STOPPED, EXIT_9 = 5, signal.SIGTSTP << 8 | 0x7F, 9 << 8


@pytest.fixture
def waited(monkeypatch):
    """What waiting for children says, one after the other; and who was stopped."""
    told, stopped = [], []

    def waitpid(_pid, _options):
        assert told, "it goes on and on"
        found = told.pop(0)
        if found is None:
            raise ChildProcessError
        return found

    monkeypatch.setattr(guard.os, "waitpid", waitpid)
    monkeypatch.setattr(guard, "_stop_too", stopped.append)
    return told, stopped


@pytest.mark.parametrize("last", [(0, 0), None])
def test_the_gateways_status_is_told_and_no_orphans(waited, last):
    waited[0][:] = [(7, 3 << 8), (GATEWAY_PID, EXIT_9), (8, 1 << 8), last]
    assert guard._reap_for(GATEWAY_PID) == EXIT_9
    waited[0][:] = [(7, 3 << 8), last]
    assert guard._reap_for(GATEWAY_PID) is None
    assert waited == ([], [])


def test_a_stop_is_no_end_and_only_the_gateways_own_stops_the_job(waited):
    told, stopped = waited
    told[:] = [(7, STOPPED), (GATEWAY_PID, signal.SIGSTOP << 8 | 0x7F), (0, 0)]
    assert guard._reap_for(GATEWAY_PID) is None
    assert stopped == []
    told[:] = [(GATEWAY_PID, STOPPED), (0, 0)]
    assert guard._reap_for(GATEWAY_PID) is None
    assert stopped == [GATEWAY_PID]


@pytest.mark.parametrize(
    ("terminal", "state", "stops"), [(True, "T", True), (True, "S", False), (False, "T", False)]
)
def test_it_stops_with_its_gateway_where_somebody_can_go_on_with_both(
    monkeypatch, terminal, state, stops
):
    def opened(_path, _flags):
        if not terminal:
            raise OSError
        return -1

    sent = []
    monkeypatch.setattr(guard.os, "open", opened)
    monkeypatch.setattr(guard.os, "close", lambda _: None)
    monkeypatch.setattr(guard.time, "sleep", lambda _: None)
    monkeypatch.setattr(guard, "read_stat", lambda pid: Stat(pid, state, 1, 1, 1, 1))
    monkeypatch.setattr(guard.os, "kill", lambda *what: sent.append(what))
    guard._stop_too(GATEWAY_PID)
    monkeypatch.undo()
    assert sent == ([(os.getpid(), signal.SIGSTOP)] if stops else [])


def test_what_is_below_is_ended_until_no_child_is_left(monkeypatch):
    """One that is adopted after a look is found by the next."""
    looks, reaped = [], [True, True, False]
    monkeypatch.setattr(guard, "end_all", lambda *_: looks.append(1) or [])
    monkeypatch.setattr(guard, "_reap", lambda: reaped.pop(0))
    assert guard.end_descendants() == []
    assert (len(looks), reaped) == (3, [])


def test_what_survives_is_not_waited_for(monkeypatch):
    stuck = Stat(2**22 + 1, "D", 1, 1, 1, 1)
    looks = []

    def end_all(*_):
        assert not looks, "it goes on and on"
        looks.append(1)
        return [stuck]

    monkeypatch.setattr(guard, "end_all", end_all)
    monkeypatch.setattr(guard, "_reap", lambda: True)
    assert guard.end_descendants() == [stuck]
