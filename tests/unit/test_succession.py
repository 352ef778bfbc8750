"""Whom a silent home is taken from: by identity, after its time, and nobody else."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import threading
import time
from contextlib import closing

import pytest

from tenure.config import Home
from tenure.errors import Conflict
from tenure.home import Holder
from tenure.processes.procfs import boot_id, identity_of
from tenure.store.sqlite import prepare
from tenure.succession import check_free, frozen, read_lease, silent, succeed

NOW = "(julianday('now') - 2440587.5) * 86400.0"


@pytest.fixture
def home(tmp_path) -> Home:
    home = Home(tmp_path / "home", tmp_path / "cache")
    home.prepare()
    prepare(home.database, home.backups).dispose()
    return home


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "1234"])
    yield process
    process.kill()
    process.wait()


def held_by(home: Home, pid: int, *, expires_in: float, start: int | None = None) -> None:
    """Write the lease of a holder with a time of two seconds."""
    identity = identity_of(pid)
    started = start if start is not None else identity.start_time
    holder = Holder("x-1", pid, started, boot_id()).text()
    with closing(sqlite3.connect(home.database)) as db, db:
        db.execute("DELETE FROM home")
        db.execute(
            f"INSERT INTO home VALUES ('home', ?, 7, 0, {NOW} + ? - 2, {NOW} + ?)",
            [holder, expires_in, expires_in],
        )


def test_nobody_holds_what_has_no_lease(home, tmp_path):
    assert not silent(home) and not frozen(home) and not succeed(home)
    assert read_lease(tmp_path / "none.db") is None


def test_a_lease_that_runs_is_left_alone(home, sleeper):
    held_by(home, sleeper.pid, expires_in=60)
    assert not silent(home) and not succeed(home)
    assert sleeper.poll() is None


def test_a_removed_lock_file_frees_no_home_whose_holder_lives(home, sleeper):
    held_by(home, sleeper.pid, expires_in=60)
    with pytest.raises(Conflict, match="renews its lease"):
        check_free(home)
    held_by(home, sleeper.pid, expires_in=-1)
    check_free(home)
    held_by(home, sleeper.pid, expires_in=60, start=1)
    check_free(home)


def test_a_holder_that_is_late_and_comes_back_is_left_alone(home, sleeper):
    held_by(home, sleeper.pid, expires_in=-1)
    assert silent(home) and not frozen(home)
    renewal = threading.Timer(0.2, held_by, [home, sleeper.pid], {"expires_in": 60})
    renewal.start()
    assert not succeed(home)
    renewal.join()
    assert sleeper.poll() is None


def test_one_that_stays_silent_is_fenced_off_and_ended(home, sleeper):
    held_by(home, sleeper.pid, expires_in=-1)
    began = time.monotonic()
    assert succeed(home)
    assert time.monotonic() - began > 0.9, "it had the time of one renewal"
    assert sleeper.wait(30) != 0
    lease = read_lease(home.database)
    assert (lease.holder, lease.epoch) == ("", 8)


def test_a_pid_that_somebody_else_has_now_is_nobody(home, sleeper):
    held_by(home, sleeper.pid, expires_in=-1, start=identity_of(sleeper.pid).start_time - 1)
    assert succeed(home), "whoever held it is gone"
    assert sleeper.poll() is None


def test_who_runs_below_the_holder_does_not_end_it(home):
    held_by(home, os.getppid(), expires_in=-1)
    assert not succeed(home)
