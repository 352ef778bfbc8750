"""``python -m proof``: whatever ends it, what it has started ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def commands_naming(text: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [line for line in found if text in line]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("words", "begun"), [(["quick", "--no-mutants"], "tenure-proof-*"), (["chaos"], "**/token")]
)
def test_a_signal_ends_a_command_and_all_that_it_has_started(tmp_path, words, begun, signum):
    command = subprocess.Popen(
        [sys.executable, "-m", "proof", *words], cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        while not list(tmp_path.glob(begun)):
            assert command.poll() is None
            time.sleep(0.01)
        command.send_signal(signum)
        assert command.wait() == 128 + signum
    finally:
        command.kill()
        command.wait()
    # Python itself tries with an empty file where temporary ones may be made.
    assert [one for one in tmp_path.iterdir() if one.is_dir()] == []
    assert commands_naming(str(tmp_path)) == []
