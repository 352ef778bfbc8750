"""Case 84: nobody opens the database file but the library: closing another descriptor would drop
its locks. Every open of the file in this process is traced (audit hook)."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys

from tenure.store import base as b
from tenure.store.revision import look
from tenure.store.sqlite import open_sqlite, prepare

PROBE = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=0)
try:
    db.execute("BEGIN IMMEDIATE")
    print("got it")
except sqlite3.OperationalError as exc:
    print(exc)
"""


def probe(path):
    return subprocess.run(
        [sys.executable, "-c", PROBE, str(path)], capture_output=True, text=True, check=True
    ).stdout.strip()


async def test_no_open_of_the_file_outside_the_library(tmp_path):
    path = tmp_path / "t.db"
    opened = []
    watching = True

    def hook(event, args):
        if (
            watching
            and event == "open"
            and str(path)
            in os.fsdecode(args[0] or b"" if isinstance(args[0], str | bytes) else b"")
        ):
            opened.append(args[0])

    sys.addaudithook(hook)
    try:
        store = open_sqlite(path, prepare(path, tmp_path / "backups"))
        await store.write(b.TakeLease("k", "me", 1.0))
        look(path)
        await store.sessions(limit=5)
        await store.aclose()
        look(path)
    finally:
        watching = False
    assert opened == []


async def test_looking_at_the_schema_does_not_drop_the_writers_lock(tmp_path):
    path = tmp_path / "t.db"
    prepare(path, tmp_path / "backups").dispose()
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute("BEGIN IMMEDIATE")
        look(path)
        assert "locked" in probe(path)
        db.execute("COMMIT")
        assert probe(path) == "got it"
    db.close()
