"""Case 87: whoever is killed while a file is written leaves nothing that stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tenure.config import Home
from tenure.models.script import Script
from tenure.sessions.upkeep import PART_S, Upkeep
from tenure.testing.gateway import open_test_gateway

KILLS = 20
WRITE = """
import sys, time
from pathlib import Path

def stop_before(event, _arguments):
    if event == sys.argv[1]:
        print("step", flush=True)
        time.sleep(1000)

folder, body = Path(sys.argv[2]), "x" * 100_000
from tenure.tools.files import place_below, replace_file
from tenure.models.credentials import Credentials
from tenure.home import write_private
from tenure.sandbox.base import ANY

def tool():
    with place_below(folder, "notes.txt", ANY) as place:
        replace_file(place, body.encode(), None)

def credentials():
    Credentials(folder / "credentials.json").save("openai", "sk-new")

def private():
    write_private(folder / "gateway.json", body.encode())

sys.addaudithook(stop_before)
globals()[sys.argv[3]]()
"""


def kill_before(event: str, folder: Path, what: str) -> None:
    """A process writes, and is killed when it is about to do that."""
    child = subprocess.Popen(
        [sys.executable, "-c", WRITE, event, str(folder), what],
        stdout=subprocess.PIPE, env={**os.environ},
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == b"step\n"
    child.send_signal(signal.SIGKILL)
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL


@pytest.mark.slow
def test_in_the_users_folder_nothing_was_there_at_all(tmp_path):
    """The whole content was written, and has not had a name yet."""
    (tmp_path / "notes.txt").write_text("as before")
    for _ in range(KILLS):
        kill_before("os.link", tmp_path, "tool")
        assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert (tmp_path / "notes.txt").read_text() == "as before"


@pytest.mark.slow
@pytest.mark.parametrize("what", ["credentials", "private"])
async def test_in_the_home_it_goes_with_the_next_round(tmp_path, what):
    async with open_test_gateway(tmp_path, Script([])) as gateway:
        home = Home(tmp_path / "home", tmp_path / "cache")
        home.root.mkdir(mode=0o700, exist_ok=True)
        for _ in range(KILLS):
            kill_before("os.rename", home.root, what)
        left = [path for path in home.root.rglob("*") if path.is_file()]
        assert len(left) == KILLS
        assert all(path.stat().st_mode & 0o777 == 0o600 for path in left)
        now_s = gateway.sessions.ports.clock.wall()
        upkeep = Upkeep(gateway.root.child("upkeep"), home, replace(gateway.sessions.ports))
        for path in left:
            os.utime(path, (now_s, now_s))
        await upkeep.once()
        assert all(path.exists() for path in left), "somebody may still be writing"
        for path in left:
            os.utime(path, (now_s - PART_S - 1, now_s - PART_S - 1))
        await upkeep.once()
        assert not any(path.is_file() for path in home.root.rglob("*"))
