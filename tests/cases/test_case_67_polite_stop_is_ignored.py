"""Case 67: a wrapper hides a server that ignores end-of-input and TERM; a stop ends both, bounded."""

from __future__ import annotations

import os
import sys

import pytest

from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.processes.procfs import identity_of, is_alive
from tenure.processes.spawn import Spawner

SERVER = (
    "import os, signal, sys, time\n"
    "[signal.signal(s, signal.SIG_IGN) for s in (2, 15)]\n"
    "print(os.getpid(), flush=True)\n"
    "while True:\n"
    "    sys.stdin.read()\n"
    "    time.sleep(60)\n"
)
WRAPPERS = {
    # keeps the server's input open itself, as package runners do
    "waits": "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]]).wait()",
    # passes nothing on and dies on the first signal: its death alone must not count as the end
    "leaves": "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', sys.argv[1]]); time.sleep(60)",
    # puts the server into a session of its own
    "setsid": "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True).wait()",
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
async def test_both_are_gone_when_close_returns(wrapper):
    root = Scope.root("root", SystemClock())
    spawner = Spawner(instance="i", environ=os.environ, clock=root.clock)
    process = await spawner.spawn(
        root, [sys.executable, "-c", WRAPPERS[wrapper], SERVER], stdin="pipe", grace_s=0.4
    )
    server = identity_of(int(await process.stdout.read()))
    assert server is not None
    assert is_alive(server)
    report = await root.close(patience_s=30)
    assert report.clean
    assert not is_alive(server)
    assert not is_alive(process.identity)
