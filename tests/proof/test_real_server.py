"""Short runs of what `python -m proof` does against real servers; its oracles can fail."""

from __future__ import annotations

import json
import random
import sqlite3
from types import SimpleNamespace

import pytest

from proof.chaos.command import main as chaos
from proof.chaos.ground import Ground
from proof.chaos.oracles import stored
from proof.fuzz import command
from proof.real.gateway import Gateway, Held
from proof.real.trend import last_half, slope


async def _nobody():
    raise AssertionError("nobody connects")


def test_queued_prompts_settle_while_their_connections_vanish(capsys):
    args = SimpleNamespace(names=["queued"], seed=5, rounds=1)
    assert chaos(args) == 0, capsys.readouterr().out


@pytest.mark.parametrize("door", sorted(command.DOORS))
def test_nonsense_at_every_door(door):
    assert command.DOORS[door](random.Random(1), 300) == []


def test_a_slope_is_not_moved_by_jumps_and_a_leak_is_seen():
    flat = [(float(n), 100.0 + (50.0 if n in {3, 9} else 0.0)) for n in range(20)]
    assert slope(flat) == 0
    assert slope([(x, y + 7 * x) for x, y in flat]) == pytest.approx(7)
    assert [x for x, _ in last_half(flat)] == [float(n) for n in range(10, 20)]


def test_what_is_held_more_is_told():
    before = Held(20, 4, 0, 9, 0, 0, 19)
    assert before.more_than(before) == {}
    assert before._replace(fds=22, rows=1, tasks=3).more_than(before) == {"fds": 2, "rows": 1}


@pytest.fixture
def gateway(tmp_path):
    database = sqlite3.connect(tmp_path / "tenure.db")
    database.executescript(
        "CREATE TABLE sessions (id, status); CREATE TABLE turns (id, state);"
        "CREATE TABLE approvals (decision); CREATE TABLE leases (key, holder);"
        "CREATE TABLE events (session_id, epoch, seq, type, payload);"
        "INSERT INTO turns VALUES ('t1', 'completed');"
    )
    end = json.dumps({"turn_id": "t1"})
    database.execute("INSERT INTO events VALUES ('s', 1, 1, 'message.complete', ?)", [end])
    database.commit()
    made = Gateway.__new__(Gateway)
    made.home = tmp_path
    yield made, database
    database.close()


def change(database, statement):
    database.execute(statement)
    database.commit()


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE sessions SET id = id", ""),
        ("UPDATE turns SET state = 'running'", "t1 is running"),
        ("DELETE FROM events", "has 0 ends"),
        ("INSERT INTO events SELECT session_id, 1, 2, type, payload FROM events", "t1 has 2 ends"),
        ("INSERT INTO events VALUES ('s', 1, 3, 'other', '')", "have gaps"),
        ("INSERT INTO sessions VALUES ('s', 'open')", "1 sessions are open"),
        ("INSERT INTO leases VALUES ('session:s', 'me')", "1 leases are open"),
        ("INSERT INTO approvals VALUES ('')", "1 approvals are open"),
        ("DELETE FROM turns", "acknowledged and is not stored"),
    ],
)
def test_the_oracle_of_the_database_sees_each_fault(gateway, statement, told):
    made, database = gateway
    ground = Ground(_nobody, 0)
    ground.accepted["s"].add("t1")
    change(database, statement)
    wrong = stored(ground, made)
    assert any(told in one for one in wrong) if told else wrong == [], wrong
