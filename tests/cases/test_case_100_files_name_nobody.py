"""Case 100: a pid in a file names nobody: whoever runs under it now is left alone by everything."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing

import pytest

from support.commands import Place
from support.served import serving
from tenure.config import Home
from tenure.home import Holder, HomeLock
from tenure.processes.procfs import boot_id, identity_of, read_stat
from tenure.succession import check_free, frozen, succeed

OTHER_BOOT = "00000000-0000-0000-0000-000000000000"
COMMANDS = (
    ("service", "status"), ("ps",), ("doctor",), ("sessions", "list"), ("logs",),
    ("config", "check"),
)  # fmt: skip


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with us, under a pid that stands in our files."""
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.fixture
async def place(tmp_path) -> Place:
    """A home that a gateway has used."""
    place = Place(tmp_path)
    with serving(place, "--model", place.script({"text": "hello"}, loop=True)) as served:
        async with served.client() as client:
            await client.ready_session()
        assert served.stop() == 0
    return place


def mistaken(victim: subprocess.Popen[bytes], kind: str) -> Holder:
    """An identity that was somebody else's: an earlier process, or one before the last boot."""
    identity = identity_of(victim.pid)
    assert identity is not None
    start, boot = identity.start_time, boot_id()
    if kind == "earlier":
        start -= 1
    else:
        boot = OTHER_BOOT
    return Holder("0000000-00000000", victim.pid, start, boot, victim.pid, start)


def write_down(place: Place, holder: Holder, *, lasts_s: float) -> None:
    """As that holder had left it, with a lease that lasts so long yet."""
    note = {
        "instance": holder.instance, "pid": holder.pid, "guard_pid": holder.guard_pid,
        "start_time": holder.start_time, "boot_id": holder.boot_id,
        "url": "ws://127.0.0.1:1/v1/ws", "version": "0", "started_at": 1.0,
    }  # fmt: skip
    (place.home / "gateway.json").write_text(json.dumps(note))
    with closing(sqlite3.connect(place.home / "tenure.db")) as db:
        now = "(julianday('now') - 2440587.5) * 86400.0"
        db.execute(
            f"UPDATE home SET holder = ?, renewed_at = {now}, expires_at = {now} + ?",
            [holder.text(), lasts_s],
        )
        db.commit()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["earlier", "before the boot"])
async def test_commands_and_a_start_leave_it_alone(place, victim, kind):
    write_down(place, mistaken(victim, kind), lasts_s=100.0)
    before = read_stat(victim.pid)
    for command in COMMANDS:
        told = place.run(*command)
        assert f"pid {victim.pid}" not in told.out + told.err, (command, told)
    with serving(place, "--model", place.script({"text": "hello"})) as served:
        async with served.client() as client:
            assert (await client.call("census.verify"))["differences"] == []
        noted = json.loads((place.home / "gateway.json").read_text())
        assert noted["pid"] == served.pid
        assert served.stop() == 0
    assert victim.poll() is None
    assert read_stat(victim.pid)._replace(state="") == before._replace(state="")


@pytest.mark.parametrize("kind", ["earlier", "before the boot"])
async def test_a_succession_ends_nobody_under_that_pid(place, victim, kind):
    home = Home(place.home, place.user)
    for lasts_s in (-1.0, 100.0):
        write_down(place, mistaken(victim, kind), lasts_s=lasts_s)
        lock = HomeLock.acquire(home)
        try:
            check_free(home)
            assert not frozen(home)
            assert succeed(home) == (lasts_s < 0), "there is nobody left to be ended"
        finally:
            lock.release()
    assert victim.poll() is None


async def test_a_stopped_process_under_that_pid_is_not_taken_for_the_holder(place, victim):
    home = Home(place.home, place.user)
    write_down(place, mistaken(victim, "earlier"), lasts_s=-1.0)
    os.kill(victim.pid, 19)
    assert not frozen(home)
    assert succeed(home)
    assert victim.poll() is None
