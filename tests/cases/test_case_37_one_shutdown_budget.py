"""Case 37: the phases of a stop add up to one budget, below the kill time of the service."""

from __future__ import annotations

import itertools
import sqlite3
import time
from contextlib import closing

import pytest

from support.commands import Place
from support.served import serving_with, wait_for
from tenure.config import ServerConfig
from tenure.shutdown import budget

SESSIONS = 20
STOP_S = 3.0
# A real gateway each of whose sessions holds something that never lets go.
STUCK = """
import asyncio
from tenure.sessions import registry
created = registry.Sessions.create
async def never(_):
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
async def create(self, *args):
    session = await created(self, *args)
    session.scope.own("stuck", None, never, grace_s=1e9)
    return session
registry.Sessions.create = create
"""


@pytest.mark.parametrize("total", [2.0, 5.0, 20.0, 90.0, 3600.0])
def test_the_phases_add_up_below_the_kill_time(total):
    limits = budget(ServerConfig(shutdown_s=total))
    assert limits.total_s == pytest.approx(total)
    assert min(limits.sessions_s, limits.rows_s, limits.rest_s) > 0
    assert limits.kill_s >= limits.total_s + 10


async def test_twenty_sessions_that_never_let_go_end_in_time_and_are_stored(tmp_path):
    place = Place(tmp_path)
    place.config(f"[server]\nshutdown_s = {STOP_S}\n")
    ref = place.script([{"text": "half an answer "}, {"gate": "never"}])
    with serving_with(place, STUCK, "--model", ref) as served:
        async with served.client() as client:
            for n in range(SESSIONS):
                session = await client.ready_session()
                await client.call("prompt.submit", session_id=session, text=f"p{n}")
                await client.until("message.delta", session)
        began = time.monotonic()
        assert served.stop() == 0
        took = time.monotonic() - began
    assert took < budget(ServerConfig(shutdown_s=STOP_S)).kill_s, "it needed no guard"
    with closing(sqlite3.connect(f"file:{place.home / 'tenure.db'}?mode=ro", uri=True)) as db:
        turns = db.execute("SELECT state, cause FROM turns").fetchall()
        statuses = db.execute("SELECT DISTINCT status FROM sessions").fetchall()
        items = db.execute("SELECT CAST(message AS TEXT) FROM items").fetchall()
    assert turns == [("interrupted", "shutdown")] * SESSIONS
    assert statuses == [("closed",)], "no row is open"
    texts = "\n".join(itertools.chain.from_iterable(items))
    assert all(f"p{n}" in texts for n in range(SESSIONS))
    assert texts.count("half an answer") == SESSIONS, "every transcript is stored"


# … and one whose turns ignore that they are to end.
DEAF = """
import asyncio
from tenure.sessions import running
async def run_turn(turn, ports):
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
running.run_turn = run_turn
"""


async def test_a_turn_that_ignores_its_end_is_ended_in_the_store_with_one_event(tmp_path):
    place = Place(tmp_path)
    place.config("[server]\nshutdown_s = 2.0\n")
    with serving_with(place, DEAF, "--model", place.script({"text": "never"})) as served:
        async with served.client() as client:
            session = await client.ready_session()
            await client.call("prompt.submit", session_id=session, text="work")
            await client.call("prompt.submit", session_id=session, text="and then")
        assert served.stop() == 0
    with closing(sqlite3.connect(f"file:{place.home / 'tenure.db'}?mode=ro", uri=True)) as db:
        assert db.execute("SELECT state, cause FROM turns ORDER BY ordinal").fetchall() == [
            ("interrupted", "shutdown"), ("queued", ""),
        ]  # fmt: skip
        assert db.execute("SELECT status FROM sessions").fetchall() == [("closed",)]
        told = "SELECT count(*) FROM events WHERE type = 'message.complete'"
        assert db.execute(told).fetchone() == (1,)


async def test_a_second_signal_skips_the_grace_and_loses_nothing(tmp_path):
    place = Place(tmp_path)
    place.config("[server]\nshutdown_s = 600.0\n")
    ref = place.script([{"text": "half "}, {"gate": "never"}])
    with serving_with(place, STUCK, "--model", ref) as served:
        async with served.client() as client:
            session = await client.ready_session()
            await client.call("prompt.submit", session_id=session, text="work")
            await client.until("message.delta", session)
        served.process.terminate()
        wait_for(lambda: state(place) == [("interrupted", 1)], "its turn is stored and marked")
        time.sleep(1.1)  # within a second it would be the echo of the first
        served.process.terminate()
        assert served.process.wait(30) == 130, "and not after the ten minutes"
    assert state(place) == [("interrupted", 1)]


def state(place: Place) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(f"file:{place.home / 'tenure.db'}?mode=ro", uri=True)) as db:
        return db.execute("SELECT state, marked_at > 0 FROM turns").fetchall()
