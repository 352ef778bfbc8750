"""The start of a gateway that finds many sessions, some of them unfinished.

Half of the unfinished ones were running when their gateway died, half were queued; both are run by
the new one. The rows are written by hand: what is measured is the start.
"""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.gateways import Running, Tenure

SESSIONS = 10_000
UNFINISHED = 500
POLL_S = 0.02
GIVE_UP_S = 60.0
# Marked, or queued and not yet counted as an attempt: nobody has looked at it.
WAITING = "SELECT count(*) FROM turns WHERE marked_at > 0 OR (state = 'queued' AND attempts = 0)"
OPEN = "SELECT count(*) FROM turns WHERE state IN ('queued', 'running') OR marked_at > 0"


def boot(
    tenure: Tenure,
    home: Path,
    model_port: int,
    *,
    count: int = SESSIONS,
    unfinished: int = UNFINISHED,
) -> dict[str, float]:
    """Seconds until the gateway is ready, until every row is taken up or ended, until all have run."""
    _database(tenure.start(home, model_port), home)
    with closing(sqlite3.connect(home / "tenure" / "tenure.db")) as db, db:
        _fill(db, count, unfinished, str(home))
    begun = time.perf_counter()
    running = tenure.start(home, model_port)
    try:
        settled, done = _none_left(home, begun, WAITING), _none_left(home, begun, OPEN)
    finally:
        running.stop()
    return {"ready_s": running.ready_s, "settled_s": settled, "done_s": done}


def _database(running: Running, home: Path) -> None:
    """Let a gateway make its database."""
    give_up = time.monotonic() + GIVE_UP_S
    while time.monotonic() < give_up:
        try:
            with closing(_look(home)) as db:
                db.execute("SELECT epoch FROM home").fetchone()
                break
        except sqlite3.Error:
            time.sleep(POLL_S)
    running.stop()


def _look(home: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{home / 'tenure' / 'tenure.db'}?mode=ro", uri=True)


def _none_left(home: Path, begun: float, query: str) -> float:
    with closing(_look(home)) as db:
        while time.perf_counter() - begun < GIVE_UP_S:
            if db.execute(query).fetchone() == (0,):
                return time.perf_counter() - begun
            time.sleep(POLL_S)
    return float("nan")


def _fill(db: sqlite3.Connection, count: int, unfinished: int, cwd: str) -> None:
    now = time.time()
    times = {"created_at": now, "updated_at": now, "taken_at": now}
    message = json.dumps({"role": "user", "text": "hi"}).encode()
    for n in range(count):
        sid = f"20260101_000000_{n:08x}"
        is_open = n < unfinished
        status = "open" if is_open else "closed"
        _insert(db, "sessions", **times, id=sid, cwd=cwd, status=status)
        _insert(db, "leases", **times, key=f"session:{sid}", holder="x" if is_open else "", epoch=1)
        if is_open:
            running = n % 2 == 0
            turn = {"id": f"t{n}", "session_id": sid, "ordinal": 1, "prompt": "hi", **times}
            state = {"state": "running", "started_at": now} if running else {"state": "queued"}
            _insert(db, "turns", **turn, **state)
            if running:
                item = {"seq": 1, "turn_id": f"t{n}", "kind": "message", "message": message}
                _insert(db, "items", session_id=sid, **item)
    # The holder is gone; its last sign of life was now.
    db.execute("UPDATE home SET holder = '', renewed_at = ?", [now])


def _insert(db: sqlite3.Connection, table: str, **values: Any) -> None:
    """A row whose other columns have an empty value of their type."""
    row = {}
    for _, name, kind, *_ in db.execute(f"PRAGMA table_info({table})"):
        number = kind.upper().startswith(("INT", "FLOAT", "BOOL"))
        row[name] = values.get(name, 0 if number else b"{}" if kind.upper() == "BLOB" else "")
    places = ", ".join("?" * len(row))
    db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", list(row.values()))
