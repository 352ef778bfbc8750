"""What is left on disk has an age and a size; what somebody needs stays."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tenure.config import Config, Home
from tenure.errors import StoreError
from tenure.models.script import Script
from tenure.sessions import upkeep as module
from tenure.sessions.upkeep import EVERY_S, FIRST_S, Tidied, Upkeep
from tenure.settings import RetentionConfig
from tenure.store.base import AppendEvent, EventRow, InsertSession, PatchSession, SessionRow
from tenure.testing.clock import settle
from tenure.testing.gateway import TestGateway, open_test_gateway

KNOWN = "20260131_120000_00000001"
GONE = "20260131_120000_ffffffff"
DAY = 86_400.0


def put(path: Path, size: int, age_s: float, now_s: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (now_s - age_s, now_s - age_s))
    return path


class Rig:
    def __init__(self, gateway: TestGateway, home: Home) -> None:
        self.gateway = gateway
        self.home = home
        self.limits = RetentionConfig()
        ports = replace(gateway.sessions.ports, config=lambda: Config(retention=self.limits))
        self.upkeep = Upkeep(gateway.root.child("upkeep"), home, ports)
        self.now_s = ports.clock.wall()

    def put(self, path: Path, size: int = 10, days: float = 0.0) -> Path:
        return put(path, size, days * DAY, self.now_s)

    async def add(
        self, session_id: str, *, days: float, status: str = "closed", title: str = "t"
    ) -> None:
        used = self.now_s - days * DAY
        row = SessionRow(session_id, title, "/", "", "test", status, "", used, used)
        await self.gateway.store.write(InsertSession(row, "me"))


@pytest.fixture
async def rig(tmp_path) -> AsyncIterator[Rig]:
    async with open_test_gateway(tmp_path, Script([])) as gateway:
        home = Home(tmp_path / "home", tmp_path / "cache")
        made = Rig(gateway, home)
        await made.add(KNOWN, days=0)
        yield made


async def test_outputs_of_sessions_that_are_gone_or_old_or_too_much(rig):
    spill = rig.home.spill
    mine = rig.put(spill / KNOWN / "new.txt", days=1)
    old = rig.put(spill / KNOWN / "old.txt", days=15)
    orphan = rig.put(spill / GONE / "out.txt")
    tidied = await rig.upkeep.once()
    assert mine.exists() and not old.exists() and not orphan.parent.exists()
    assert (tidied.files, tidied.bytes) == (2, 20)
    rig.limits = RetentionConfig(spill_bytes_max=25)
    newer = [rig.put(spill / KNOWN / f"{n}.txt", days=n / 100) for n in range(4)]
    await rig.upkeep.once()
    assert [path.exists() for path in newer] == [True, True, False, False] and not mine.exists()


async def test_backups_by_number_and_age_but_never_the_newest(rig):
    made = [rig.put(rig.home.backups / f"{n}.db", days=10 * n) for n in range(8)]
    await rig.upkeep.once()
    assert [path.exists() for path in made] == [True] * 5 + [False] * 3
    rig.limits = RetentionConfig(backup_days=0.0)
    await rig.upkeep.once()
    assert [path.exists() for path in made] == [True] + [False] * 7


async def test_what_was_being_written_is_left_for_an_hour(rig):
    dead = rig.put(rig.home.root / "credentials.json.123.part", days=0.1)
    cut = [rig.put(rig.home.backups / f"t.db.part{end}", days=0.1) for end in ("", "-journal")]
    living = rig.put(rig.home.root / "gateway.json.9.part")
    token = rig.put(rig.home.root / "token", days=900)
    await rig.upkeep.once()
    assert not any(path.exists() for path in cut)
    assert not dead.exists() and living.exists() and token.exists()


async def test_a_file_that_cannot_be_removed_keeps_no_other(rig, monkeypatch):
    stays, goes = (rig.put(rig.home.spill / KNOWN / f"{n}.txt", days=20) for n in range(2))
    unlink = Path.unlink

    def refused(path, **more):
        if path == stays:
            raise PermissionError
        unlink(path, **more)

    monkeypatch.setattr(Path, "unlink", refused)
    assert (await rig.upkeep.once()).files == 1
    assert stays.exists() and not goes.exists()


async def test_a_folder_that_cannot_be_read_does_not_end_it(rig, monkeypatch):
    rounds = []

    async def once() -> Tidied:
        rounds.append(1)
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(rig.upkeep, "once", once)
    rig.upkeep.begin()
    for step in (FIRST_S, EVERY_S):
        await settle()
        rig.gateway.sessions.ports.clock.advance(step)
        await settle()
    assert len(rounds) == 2


async def test_more_than_a_hundred_go_in_one_round(rig, monkeypatch):
    monkeypatch.setattr(module, "SESSIONS_AT_ONCE", 2)
    monkeypatch.setattr(module, "PAUSE_S", 0.0)
    for n in range(2, 7):
        await rig.add(f"20260131_120000_0000000{n}", days=40)
        event = AppendEvent(f"20260131_120000_0000000{n}", EventRow(1, 0, "x", b"{}", 1.0))
        await rig.gateway.store.write(event)
    assert (await rig.upkeep.once()).events_of == 5
    rig.limits = RetentionConfig(session_days=30.0)
    assert (await rig.upkeep.once()).sessions == 5


async def test_what_is_used_or_pinned_is_not_ended(rig):
    await rig.add("20260131_120000_00000002", days=40, status="idle")
    await rig.add("20260131_120000_00000003", days=20, status="idle")
    await rig.gateway.store.write(PatchSession("20260131_120000_00000002", {"pinned": True}))
    rig.limits = RetentionConfig(session_days=30.0)
    await rig.upkeep.once()
    rows = await rig.gateway.store.sessions(limit=9, status="idle")
    assert {row.id[-1] for row in rows} == {"2", "3"}


async def test_a_copy_that_is_being_made_is_not_the_newest(rig):
    whole = rig.put(rig.home.backups / "1.db", days=500)
    rig.put(rig.home.backups / "2.db.part")
    other = rig.put(rig.home.spill / "no session" / "x.txt")
    await rig.upkeep.once()
    assert whole.exists() and other.exists()


async def test_rows_of_sessions_unused_for_long(rig):
    await rig.add("20260131_120000_00000002", days=40)
    await rig.add("20260131_120000_00000003", days=40, status="open")
    assert (await rig.upkeep.once()).sessions == 0
    old = rig.put(rig.home.spill / "20260131_120000_00000002" / "x.txt")
    rig.limits = RetentionConfig(session_days=30.0)
    assert (await rig.upkeep.once()).sessions == 1
    left = {row.id[-1] for row in await rig.gateway.store.sessions(limit=9)}
    assert left == {"1", "3"} and not old.parent.exists()


async def test_what_was_unloaded_and_not_used_for_long_is_ended_and_removed(rig):
    await rig.add("20260131_120000_00000002", days=40, status="idle")
    await rig.add("20260131_120000_00000003", days=20, status="idle")
    assert (await rig.upkeep.once()).sessions == 0
    rig.limits = RetentionConfig(session_days=30.0)
    assert (await rig.upkeep.once()).sessions == 1
    left = {row.id[-1]: row.status for row in await rig.gateway.store.sessions(limit=9)}
    assert left == {"1": "closed", "3": "idle"}


async def test_sessions_in_which_nothing_was_said_go_after_a_day(rig):
    for n, status in enumerate(("closed", "idle", "open"), 2):
        await rig.add(f"20260131_120000_0000000{n}", days=1.1, status=status, title="")
    await rig.add("20260131_120000_00000005", days=0.9, title="")
    assert (await rig.upkeep.once()).sessions == 2
    assert {row.id[-1] for row in await rig.gateway.store.sessions(limit=9)} == {"1", "4", "5"}


async def test_nothing_to_do_removes_nothing(rig):
    assert await rig.upkeep.once() == Tidied()


async def test_it_comes_back_after_a_failure_and_every_hour(rig, monkeypatch):
    rounds = []

    async def once() -> Tidied:
        rounds.append(rig.gateway.sessions.ports.clock.monotonic())
        if len(rounds) == 1:
            raise StoreError("a test")
        return Tidied(files=1)

    monkeypatch.setattr(rig.upkeep, "once", once)
    clock = rig.gateway.sessions.ports.clock
    rig.upkeep.begin()
    began = clock.monotonic()
    for step in (FIRST_S, EVERY_S, EVERY_S):
        await settle()
        clock.advance(step)
        await settle()
    assert [at - began for at in rounds] == [FIRST_S, FIRST_S + EVERY_S, FIRST_S + 2 * EVERY_S]
