"""Ending many sessions at once: their last writes share commits."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from tenure.models.script import Script
from tenure.protocol.methods import SessionCreate
from tenure.store.sqlite import open_sqlite, prepare
from tenure.testing.gateway import open_test_gateway

COUNT = 500


async def test_five_hundred_sessions_end_in_a_few_commits(tmp_path):
    path = tmp_path / "t.db"
    store = open_sqlite(path, prepare(path, tmp_path / "backups"))
    async with open_test_gateway(tmp_path, Script([]), store=store) as gateway:
        for _ in range(COUNT):
            await gateway.sessions.create(SessionCreate(), str(tmp_path), lambda _: None)
        before = store.statistics()
        assert await gateway.sessions.drain("gateway ended", 60.0) is True
        after = store.statistics()
        assert after["writes"] - before["writes"] <= 2 * COUNT
        assert after["commits"] - before["commits"] < COUNT / 10
        assert len(gateway.sessions) == 0
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT DISTINCT status, reason FROM sessions").fetchall() == [
            ("closed", "gateway ended")
        ]
        (told,) = db.execute("SELECT count(*) FROM events WHERE type = 'session.closed'").fetchone()
        assert told == COUNT
