"""Case 41: what a killed gateway held is free at once, whatever runs under its pid now."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from contextlib import closing

import pytest

from support.commands import Place
from support.served import serving, wait_for
from tenure.home import Holder
from tenure.processes.procfs import identity_of, is_alive


@pytest.mark.parametrize("pid", ["dead", "recycled"])
async def test_every_lock_of_a_killed_gateway_is_free_at_once(tmp_path, pid):
    place = Place(tmp_path)
    ref = place.script({"text": "hello"}, loop=True)
    with serving(place, "--model", ref) as served:
        async with served.client() as client:
            session = await client.ready_session()
            await client.call("prompt.submit", session_id=session, text="one")
            await client.until("message.complete", session)
            identity = identity_of(served.pid)
            for one in (served.guard_pid, served.pid):
                os.kill(one, signal.SIGSTOP)
            for one in (served.guard_pid, served.pid):
                os.kill(one, signal.SIGKILL)
        wait_for(lambda: not is_alive(identity), "it is gone")
    lease = held_by(place)
    assert lease.pid == served.pid, "the lease is still there and has not run out"
    if pid == "recycled":
        # An unrelated process that lives has taken over the pid: this one.
        recycle(place, lease)
    began = time.monotonic()
    with serving(place, "--model", ref) as again:
        async with again.client() as client:
            await client.call("session.resume", session_id=session)
            await client.call("prompt.submit", session_id=session, text="two")
            done = await client.until("message.complete", session)
            assert done.payload["state"] == "completed"
        assert time.monotonic() - began < 60, "far less than the lease of 120 s"
        assert held_by(place).pid == again.pid
        assert again.stop() == 0
    assert held_by(place) is None, "a graceful end gives the home up"


def held_by(place: Place) -> Holder | None:
    with closing(sqlite3.connect(f"file:{place.home / 'tenure.db'}?mode=ro", uri=True)) as db:
        ((text, left),) = db.execute(
            "SELECT holder, expires_at - (julianday('now') - 2440587.5) * 86400 FROM home"
        )
    assert not text or 30 < left <= 120
    return Holder.read(text)


def recycle(place: Place, lease: Holder) -> None:
    text = lease.text().replace(f'"pid":{lease.pid}', f'"pid":{os.getpid()}')
    with closing(sqlite3.connect(place.home / "tenure.db")) as db:
        db.execute("UPDATE home SET holder = ?", [text])
        db.execute("UPDATE leases SET holder = ?", [lease.instance])
        db.commit()
    note = place.home / "gateway.json"
    told = json.loads(note.read_text())
    note.write_text(json.dumps({**told, "pid": os.getpid(), "guard_pid": os.getpid()}))
