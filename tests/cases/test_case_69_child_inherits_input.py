"""Case 69: a command gets none of our descriptors, and what it does to its own changes nothing."""

from __future__ import annotations

import fcntl
import os
import sys

import pytest

from tenure.testing.desk import Desk
from tenure.tools.shell import Shell

MEDDLE = f"""
cat
{sys.executable} - <<'END'
import fcntl, os
for fd in (0, 1, 2):
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK)
END
ls -l /proc/self/fd | grep -c -- '->'
"""


@pytest.fixture
async def desk(tmp_path):
    desk = Desk(tmp_path, dict(os.environ))
    yield desk
    await desk.root.close()


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc")
async def test_a_command_reads_no_request_and_changes_no_descriptor_of_ours(desk):
    read_fd, write_fd = os.pipe()  # the wire: requests are waiting in it
    os.set_inheritable(read_fd, True)
    os.write(write_fd, b'{"id": 1}\n')
    os.close(write_fd)  # who reads it all the same comes to an end
    kept = os.dup(0)
    os.dup2(read_fd, 0)
    try:
        flags = fcntl.fcntl(0, fcntl.F_GETFL)
        result = await desk.call(Shell(1_000, 60), command=MEDDLE)
        assert result.text == "4\n"  # three of its own, and the listing itself
        assert fcntl.fcntl(0, fcntl.F_GETFL) == flags
        assert os.read(0, 100) == b'{"id": 1}\n'
    finally:
        os.dup2(kept, 0)
        for fd in (kept, read_fd):
            os.close(fd)
