"""A gateway that is stopped (SIGSTOP) loses its home to the next one, and cannot come back."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import time
from contextlib import closing, suppress

import pytest

from support.commands import Place
from support.served import Served, load, pids_with, serving, serving_with, wait_for
from tenure.processes.procfs import identity_of, is_alive, read_stat
from tenure.testing.waiting import until

# A real gateway that stops itself in the middle of the transaction that stores a prompt.
IN_TRANSACTION = """
import os, signal, time
from tenure.store import statements
applied = statements.apply
def apply(db, op):
    result = applied(db, op)
    if type(op).__name__ == "InsertTurn" and op.row.prompt == "freeze":
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(1)  # a stop reaches the threads of a process one by one
    return result
statements.apply = apply
"""


@pytest.fixture
def place(tmp_path) -> Place:
    place = Place(tmp_path)
    place.config("[server]\nlease_s = 1.0\n")
    return place


def frozen(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.state == "T"


def wait_expired(place: Place) -> None:
    def expired() -> bool:
        with closing(sqlite3.connect(f"file:{place.home / 'tenure.db'}?mode=ro", uri=True)) as db:
            query = "SELECT expires_at < (julianday('now') - 2440587.5) * 86400 FROM home"
            return bool(db.execute(query).fetchone()[0])

    wait_for(expired, "its lease runs out")


async def begin(served: Served) -> str:
    async with served.client() as client:
        session = await client.ready_session()
        await client.call("prompt.submit", session_id=session, text="work")
    return session


@pytest.mark.parametrize("who", ["gateway", "gateway and guard"])
async def test_a_stopped_gateway_is_succeeded_and_gone(place, who):
    ref = place.script([{"gate": "never"}, {"text": "x"}])
    with serving_with(place, "", "--model", ref) as first:
        session = await begin(first)
        identities = [identity_of(first.pid), identity_of(first.guard_pid)]
        for pid in (first.pid, first.guard_pid)[: 1 + (who != "gateway")]:
            os.kill(pid, signal.SIGSTOP)
        wait_expired(place)
        next_ref = place.script({"text": "went on"}, name="next.json", loop=True)
        with serving(place, "--model", next_ref) as second:
            assert not any(map(is_alive, identities)), "ended by identity, the guard too"
            for pid in (first.pid, first.guard_pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            async with second.client() as client:
                resumed = await client.call("session.resume", session_id=session)
                if resumed["running"]:
                    await client.until("message.complete", session)
                await client.call("prompt.submit", session_id=session, text="more")
                await client.until("message.complete", session)
            note = (place.home / "gateway.json").read_text()
            assert f'"pid":{second.pid}' in note
            assert second.stop() == 0
    assert not pids_with(str(place.home), "serve")


async def test_a_gateway_stopped_inside_a_transaction_is_succeeded(place):
    ref = place.script({"text": "fine"}, loop=True)
    with serving_with(place, IN_TRANSACTION, "--model", ref) as first:
        async with first.client() as client:
            session = await client.ready_session()
            await client.call("prompt.submit", session_id=session, text="work")
            await client.until("message.complete", session)
            request = client.call("prompt.submit", session_id=session, text="freeze")
            waiting = asyncio.ensure_future(request)
            await asyncio.sleep(0)
            await until(lambda: frozen(first.pid))
            assert not waiting.done(), "never acknowledged"
            waiting.cancel()
            with closing(sqlite3.connect(place.home / "tenure.db", timeout=0.1)) as db:
                with pytest.raises(sqlite3.OperationalError, match="locked"):
                    db.execute("BEGIN IMMEDIATE")
            identity = identity_of(first.pid)
            wait_expired(place)
            with serving(place, "--model", ref) as second:
                assert not is_alive(identity)
                async with second.client() as other:
                    await other.call("session.resume", session_id=session)
                    await other.call("prompt.submit", session_id=session, text="more")
                    done = await other.until("message.complete", session)
                    assert done.payload["state"] == "completed"
                assert second.stop() == 0
    prompts = rows(place, "SELECT prompt FROM turns ORDER BY ordinal")
    assert prompts == [("work",), ("more",)], "what was not committed is not there"


async def test_a_command_does_not_wait_for_a_stopped_gateway(place):
    ref = place.script({"text": "fine"}, loop=True)
    with serving_with(place, "", "--model", ref) as first:
        session = await begin(first)
        identity = identity_of(first.pid)
        os.kill(first.pid, signal.SIGSTOP)
        wait_expired(place)
        began = time.monotonic()
        listed = place.run("sessions", "list", "--json").rows()
        took_s = (time.monotonic() - began) / max(1.0, load() / 2)  # where others run, too
        assert took_s < 8, "less than one vain connection takes"
        assert session in [row["id"] for row in listed]
        assert not is_alive(identity)


async def test_a_gateway_that_renews_is_left_alone(place):
    place.config("[server]\nlease_s = 8.0\n")  # a busy machine may stop it for a second, too
    ref = place.script({"text": "fine"}, loop=True)
    with serving(place, "--model", ref) as first:
        wait_for(lambda: renewed(place), "it renews")
        refused = place.run("serve", "--port", "0")
        assert refused.code == 2 and "already serves the home" in refused.sentence
        assert first.process.poll() is None
        assert first.stop() == 0


def rows(place: Place, query: str) -> list[tuple]:
    with closing(sqlite3.connect(f"file:{place.home / 'tenure.db'}?mode=ro", uri=True)) as db:
        return db.execute(query).fetchall()


def renewed(place: Place) -> bool:
    """Whether the holder has renewed its lease; the database may not be there yet."""
    with suppress(sqlite3.OperationalError):
        return rows(place, "SELECT renewed_at - taken_at > 1.0 FROM home") == [(1,)]
    return False
