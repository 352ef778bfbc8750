"""A real sshd on a free port, with keys of its own, as a child of the test."""

from __future__ import annotations

import getpass
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from support.needs import program

SSHD = program("sshd")
needs_sshd = pytest.mark.needs("sshd")
CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {base}/host
AuthorizedKeysFile {base}/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
AllowAgentForwarding yes
Subsystem sftp internal-sftp
SetEnv HOME={base}/home
"""


class Server(NamedTuple):
    """Where it listens, and what it knows."""

    port: int
    key: Path
    known_hosts: Path
    fingerprint: str
    user: str
    process: subprocess.Popen[bytes]


@contextmanager
def sshd(base: Path) -> Iterator[Server]:
    """Serve until the block is left; its sessions end with it."""
    (base / "home").mkdir(parents=True)
    (base / "home/.bashrc").write_text("echo noise of the shell that says so\n")
    for name in ("host", "user", "other"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(base / name))
    port = free_port()
    (base / "config").write_text(CONFIG.format(port=port, base=base))
    public = (base / "host.pub").read_text().split()[:2]
    (base / "known_hosts").write_text(f"[127.0.0.1]:{port} {' '.join(public)}\n")
    fingerprint = run("ssh-keygen", "-l", "-E", "sha256", "-f", str(base / "host.pub")).split()[1]
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(
            exist_ok=True
        )  # sshd wants it, and only its package's unit makes it
    with (base / "log").open("wb") as log:
        process = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", str(base / "config")], stdin=subprocess.DEVNULL, stdout=log,
            stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        wait_listening(port, process, base / "log")
        yield Server(
            port, base / "user", base / "known_hosts", fingerprint, getpass.getuser(), process
        )
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def run(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def free_port() -> int:
    """One that no connection is given meanwhile: those have theirs from the system's own range."""
    while True:
        port = random.randrange(20_000, 32_768)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def wait_listening(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    give_up = time.monotonic() + 30
    while time.monotonic() < give_up:
        assert process.poll() is None, log.read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise AssertionError(log.read_text())
