"""Case 65: children cannot outlive the gateway; what two kills at once leave, the next start ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from support.served import in_time
from tenure.processes.procfs import Identity, identity_of, is_alive

SRC = os.path.dirname(os.path.dirname(sys.modules["tenure"].__file__))

GATEWAY = (
    """
import sys
sys.path.insert(0, %r)
from tenure.processes.guard import start_guard
guarded = start_guard()
import asyncio, os
from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.processes.reconcile import reconcile
from tenure.processes.spawn import Spawner
from tenure.processes.watch import OrphanReaper, watch_guard

instance, live = sys.argv[1], set(sys.argv[2].split(","))
DAEMON = "import os, time\\nr, w = os.pipe()\\nif os.fork(): os.read(r, 1); os._exit(0)\\n" \\
         "os.setsid()\\nif os.fork(): os._exit(0)\\n" \\
         "os.write(1, b'%%d ' %% os.getpid())\\nos.write(w, b'x')\\ntime.sleep(60)"
KINDS = {
    "plain": ["sh", "-c", "echo $$; exec sleep 60"],
    "stubborn": [sys.executable, "-c", "import os, signal, time; [signal.signal(s, 1) for s in (2, 15)];"
                 " print(os.getpid(), flush=True); time.sleep(60)"],
    "job": ["sh", "-c", "sleep 60 & echo $!; wait"],
    "daemon": [sys.executable, "-c", DAEMON],
    "bare daemon": ["env", "-i", sys.executable, "-S", "-c", DAEMON],
}

async def main():
    root = Scope.root("gateway", SystemClock())
    spawner = Spawner(instance=instance, environ=os.environ, clock=root.clock)
    stop = asyncio.Event()
    watch_guard(root, guarded, stop.set)
    OrphanReaper(root, spawner)
    swept = await reconcile(root, lambda name: name.startswith("home-") and name not in live)
    pids = []
    for kind, argv in KINDS.items():
        process = await spawner.spawn(root, argv, kind=kind, grace_s=0.2, stderr="null")
        line = b""
        while not line.strip() or line[-1:] not in b" \\n":
            line += await process.stdout.read()
        pids.append(int(line))
    print(os.getpid(), len(swept.ended), *pids, flush=True)
    asyncio.get_running_loop().add_reader(0, stop.set)
    await stop.wait()
    await root.close()

asyncio.run(main())
"""
    % SRC
)


class Gateway:
    def __init__(self, script, instance: str, live: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(script), instance, live],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True,
        )  # fmt: skip
        line = self.process.stdout.readline().split()
        assert line, f"{instance} did not start"
        self.pid, self.swept, *pids = map(int, line)
        self.children = {kind: identity_of(pid) for kind, pid in zip(KINDS, pids, strict=True)}
        self.pidfds = {kind: os.pidfd_open(pid) for kind, pid in zip(KINDS, pids, strict=True)}

    def gone(self, *kinds: str, within_s: float = 3.0) -> bool:
        for kind in kinds or KINDS:
            poller = select.poll()
            poller.register(self.pidfds[kind], select.POLLIN)
            if not in_time(lambda poller=poller: poller.poll(0), within_s):
                return False
        return True

    def alive(self) -> set[str]:
        return {kind for kind, identity in self.children.items() if runs(identity)}

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
        for identity in self.children.values():
            if runs(identity):
                os.kill(identity.pid, signal.SIGKILL)
        for fd in self.pidfds.values():
            os.close(fd)


KINDS = ("plain", "stubborn", "job", "daemon", "bare daemon")


def runs(identity: Identity | None) -> bool:
    return identity is not None and is_alive(identity)


@pytest.fixture
def boot(tmp_path):
    script = tmp_path / "gateway.py"
    script.write_text(GATEWAY)
    made: list[Gateway] = []

    def start(instance: str, live: str = "") -> Gateway:
        made.append(Gateway(script, instance, live))
        return made[-1]

    yield start
    for gateway in made:
        gateway.end()


def test_a_killed_gateway_leaves_nothing_without_any_new_start(boot):
    gateway = boot("home-1")
    assert gateway.alive() == set(KINDS)
    os.kill(gateway.pid, signal.SIGKILL)
    assert gateway.gone()
    assert gateway.process.wait(30) == -signal.SIGKILL


def test_a_killed_guard_takes_the_gateway_and_all_with_it(boot):
    gateway = boot("home-1")
    gateway_pidfd = os.pidfd_open(gateway.pid)
    os.kill(gateway.process.pid, signal.SIGKILL)
    assert gateway.gone()
    poller = select.poll()
    poller.register(gateway_pidfd, select.POLLIN)
    assert in_time(lambda: poller.poll(0), 3)
    os.close(gateway_pidfd)


def test_both_killed_the_next_start_sweeps_first_and_spares_a_live_second_gateway(boot):
    old, second = boot("home-1", "home-2"), boot("home-2", "home-1")
    for pid in (old.process.pid, old.pid):
        os.kill(pid, signal.SIGSTOP)
    for pid in (old.process.pid, old.pid):
        os.kill(pid, signal.SIGKILL)
    old.process.wait(30)
    assert old.alive() == set(KINDS)
    new = boot("home-3", "home-2,home-3")
    # All that carries the label: the "job" and its shell, and not the daemon without environment.
    assert new.swept == 5
    assert old.gone("plain", "stubborn", "job", "daemon", within_s=0)
    assert second.alive() == set(KINDS)
    assert new.alive() == set(KINDS)


def test_a_clean_end_leaves_nothing_either(boot):
    gateway = boot("home-1")
    gateway.process.stdin.close()
    assert gateway.process.wait(30) == 0
    assert gateway.alive() == set()
