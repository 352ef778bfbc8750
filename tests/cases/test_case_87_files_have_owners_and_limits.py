"""Case 87: every kind of file has an owner, an age and a size; a kill leaves nothing for good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event

from support.checkpoints import SESSION, Bench
from tenure.config import Config, Home
from tenure.errors import StoreFull
from tenure.models.script import Script
from tenure.sessions.upkeep import Upkeep
from tenure.settings import RetentionConfig
from tenure.store.base import AppendEvent, EventRow, InsertSession, SessionRow
from tenure.store.holding import settle, take_home
from tenure.store.sqlite import open_sqlite, prepare
from tenure.testing.gateway import open_test_gateway

KILLS = 20
ENDED = 10_000
DAY = 86_400.0
TAKE = """
import asyncio, sys
from pathlib import Path
from tenure.checkpoints import blobs
from tenure.checkpoints.keeper import Asked, Checkpoints
from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.settings import CheckpointsConfig

kept, root, session = sys.argv[1:]
def telling(real):
    def told(path):
        made = real(path)
        print("step", flush=True)
        return made
    return told
blobs._open_new = telling(blobs._open_new)  # before a small content, and a large one, is written
blobs._private = telling(blobs._private)

async def main():
    clock = SystemClock()
    async with Scope.root("test", clock) as scope:
        keeper = Checkpoints(Path(kept), clock, CheckpointsConfig)
        await keeper.take(scope, Asked(session_id=session, turn_id="t", root=root, label="x"))

asyncio.run(main())
"""


@pytest.fixture
async def bench(tmp_path):
    from tenure.lifecycle.scope import Scope
    from tenure.testing.clock import ManualClock

    clock = ManualClock()
    async with Scope.root("test", clock) as scope:
        made = Bench(tmp_path, scope, clock)
        made.root.mkdir()
        for n in range(KILLS + 10):
            (made.root / f"{n}.bin").write_bytes(os.urandom(3_000_000 if n % 3 == 0 else 2_000))
        yield made


def kill_after(bench: Bench, steps: int) -> None:
    """A process takes a checkpoint and is killed after that many contents."""
    child = subprocess.Popen(
        [sys.executable, "-c", TAKE, str(bench.kept), str(bench.root), SESSION],
        stdout=subprocess.PIPE,
        env={**os.environ},
    )
    assert child.stdout is not None
    for _ in range(steps):
        assert child.stdout.readline() == b"step\n"
    child.send_signal(signal.SIGKILL)
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL


@pytest.mark.slow
async def test_a_kill_in_the_middle_of_a_checkpoint_leaves_nothing(bench):
    """At every step, twenty times; the sweep is what a start does."""
    for kill in range(KILLS):
        kill_after(bench, 2 + kill)
        assert bench.blobs() > 0, "it was killed before it had begun"
        swept = await bench.sweep(SESSION)
        assert bench.blobs() == 0 and swept.bytes > 0
    assert await bench.take(), "and the next one is whole"
    (bench.root / "0.bin").unlink()
    await bench.restore()
    assert (bench.root / "0.bin").stat().st_size == 3_000_000


async def test_every_kind_is_kept_within_its_limits(tmp_path):
    """One round brings each kind of file under its age, number and size."""
    async with open_test_gateway(tmp_path, Script([])) as gateway:
        home = Home(tmp_path / "home", tmp_path / "cache")
        limits = RetentionConfig(spill_bytes_max=1_000, backups_max=2)
        ports = replace(gateway.sessions.ports, config=lambda: Config(retention=limits))
        now_s = ports.clock.wall()
        await gateway.store.write(InsertSession(_row(SESSION, now_s), "me"))
        for n in range(30):
            for path in (
                home.spill / SESSION / f"{n}.txt",
                home.backups / f"{n}.db",
                home.root / f"x{n}.part",
                home.checkpoints / "tmp" / f"blob_{n}",
                home.checkpoints / "blobs" / "ab" / f"{n:062x}",
            ):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"x" * 300)
                age_s = n * DAY + 7_200
                os.utime(path, (now_s - age_s, now_s - age_s))
        (home.root / "config.toml").write_text("# a person's")
        await Upkeep(gateway.root.child("upkeep"), home, ports).once()
        left = {
            str(p.relative_to(home.root)): p.stat().st_size
            for p in home.root.rglob("*")
            if p.is_file()
        }
    assert left == {
        "config.toml": 12, "backups/0.db": 300, "backups/1.db": 300,
        **{f"spill/{SESSION}/{n}.txt": 300 for n in range(3)},
    }  # fmt: skip


def _row(session_id: str, used_s: float, status: str = "closed") -> SessionRow:
    return SessionRow(session_id, "t", "/", "", "test", status, "", used_s, used_s)


async def _boot(path: Path) -> float:
    """Computing seconds from the file to a store that is settled and was asked for its sessions."""
    began_s = time.process_time()
    store = open_sqlite(path, prepare(path, path.parent / "backups"))
    held = await take_home(store, "test", 60.0, is_gone=lambda _: True, lost=lambda: None)
    await settle(store, held, time.time())
    await store.sessions(limit=50)
    took_s = time.process_time() - began_s
    await store.aclose()
    return took_s


@pytest.mark.slow
async def test_ten_thousand_ended_sessions_keep_the_boot_flat_and_the_store_small(tmp_path):
    empty, full = tmp_path / "empty.db", tmp_path / "full.db"
    store = open_sqlite(full, prepare(full, tmp_path / "backups"))
    now_s = time.time()
    payload = b'"' + b"x" * 2_000 + b'"'
    for start in range(0, ENDED, 500):
        ops = []
        for n in range(start, start + 500):
            session_id = f"20260101_{n:06}_00000000"
            ops += [
                InsertSession(_row(session_id, now_s - 60 * DAY), "me"),
                AppendEvent(session_id, EventRow(1, 0, "x", payload, 1.0)),
            ]
        await store.write(*ops)
    grown = full.stat().st_size + full.with_name("full.db-wal").stat().st_size
    async with open_test_gateway(tmp_path, Script([]), store=store) as gateway:
        ports = gateway.sessions.ports
        assert ports.clock.wall() > now_s, "the clock of the test is ahead, so all are old"
        instant = replace(ports, clock=_Instant(ports.clock))
        tidied = await Upkeep(
            gateway.root.child("upkeep"), Home(tmp_path / "h", tmp_path), instant
        ).once()
        assert tidied.events_of == ENDED and tidied.sessions == 0
    assert grown > ENDED * 2_000
    with __import__("contextlib").closing(__import__("sqlite3").connect(full)) as db:
        used = db.execute(
            "SELECT (SELECT page_count FROM pragma_page_count) - freelist_count "
            "FROM pragma_freelist_count"
        ).fetchone()[0]
        assert used * 4096 < ENDED * 1_000, "what is left of an ended session is its row"
    await _boot(empty)
    flat = min([await _boot(empty) for _ in range(3)])
    with_many = min([await _boot(full) for _ in range(3)])
    assert with_many < 5 * flat + 0.1, (with_many, flat)


class _Instant:
    """A clock whose pauses take no time."""

    def __init__(self, clock) -> None:
        self._clock = clock

    def __getattr__(self, name):
        return getattr(self._clock, name)

    async def sleep(self, _delay_s: float) -> None:
        return


async def test_on_a_full_disk_a_prompt_is_refused_aloud_and_nothing_is_lost(tmp_path):
    path = tmp_path / "small.db"
    engine = prepare(path, tmp_path / "backups")

    @event.listens_for(engine, "connect")
    def small(raw, _record) -> None:
        raw.execute("PRAGMA max_page_count = 60")  # as a disk of 240 kB

    store = open_sqlite(path, engine)
    async with open_test_gateway(tmp_path, Script([{"text": "Yes."}]), store=store) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session()
        await client.call("prompt.submit", session_id=session, text="small")
        await client.until("message.complete", session)
        with pytest.raises(StoreFull, match="No space is left"):
            await client.call("prompt.submit", session_id=session, text="x" * 1_000_000)
        kept = (await client.call("session.history", session_id=session))["messages"]
        assert [m["text"] for m in kept] == ["small", "Yes."]
        live = gateway.sessions.get(session)
        assert live.current is None and not live.queued
        await client.call("prompt.submit", session_id=session, text="small again")
        await client.until("message.complete", session)
