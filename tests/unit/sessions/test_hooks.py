"""End hooks alone: which are begun, how many at a time, and what one of them may do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.config import Config
from tenure.errors import NotFound, ProcessError, StoreError
from tenure.sessions.hooks import AT_ONCE, EndHooks
from tenure.settings import HooksConfig
from tenure.store.base import InsertEnd, InsertSession, SessionRow, StartEnd
from tenure.testing.clock import ManualClock, settle
from tenure.testing.gates import Gate
from tenure.testing.store import MemoryStore

TIMEOUT_S = 10.0


def sid(n: int) -> str:
    return f"20260101_000000_{n:08x}"


class Command:
    """A process that ends at a gate, once what it says was read."""

    def __init__(self, gate: Gate, told: list[bytes], *, deaf: bool) -> None:
        self.stdout = self
        self._gate, self._said, self._deaf = gate, [b"a line\n"], deaf
        self._told, self._closed = told, asyncio.Event()

    async def read(self) -> bytes:
        return self._said.pop() if self._said else b""

    async def write(self, data: bytes) -> None:
        if self._deaf:
            raise ProcessError("It has closed its input.")
        self._told.append(data)

    def close_stdin(self) -> None:
        self._closed.set()

    async def wait(self) -> int:
        await self._closed.wait()  # it reads to the end, as `cat` does
        await self._gate.park()
        while self._said:
            await settle(1)
        return 0


class House:
    """One profile, "default", with `ends` that wait; others cannot be opened."""

    def __init__(self, scope: Any, clock: ManualClock) -> None:
        self.store, self.gate, self.begun = MemoryStore(), Gate(), list[str]()
        self.deaf, self.reading, self.told = False, list[Gate](), list[bytes]()
        self.config = Config(hooks=HooksConfig(("hook",), timeout_s=TIMEOUT_S))
        home = SimpleNamespace(profile=lambda _: SimpleNamespace(root=Path("/")))
        self.home, history = home, self.store.history
        self.ports = SimpleNamespace(
            store=self.store,
            clock=clock,
            config=lambda: self.config,
            spawner=self,
            profile="default",
        )

        async def read(session_id: str) -> Any:
            for gate in self.reading:
                await gate.park()
            return await history(session_id)

        self.store.history = read  # type: ignore[method-assign]
        self.scope = scope
        self.hooks = EndHooks(scope, self)  # type: ignore[arg-type]

    @asynccontextmanager
    async def using_ports(self, profile: str) -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        if profile != "default":
            raise NotFound("There is no such profile.")
        yield self.ports

    async def spawn(self, _scope: Any, _command: Any, *, owner: str, **_more: Any) -> Command:
        self.begun.append(owner)
        return Command(self.gate, self.told, deaf=self.deaf)

    async def end(self, *numbers: int) -> None:
        for n in numbers:
            row = SessionRow(sid(n), "", "/", "", "t", "closed", "", 0.0, 0.0)
            await self.store.write(InsertSession(row, "me"), InsertEnd(row.id, "closed", float(n)))

    async def waits(self) -> list[str]:
        return [end.session_id for end in await self.store.ends()]


@pytest.fixture
def house(root, clock) -> House:
    return House(root.child("hooks"), clock)


async def test_so_many_run_at_one_time_and_each_once(house):
    await house.end(*range(AT_ONCE + 2))
    house.hooks.wake("default")
    await settle(100)
    assert len(house.begun) == AT_ONCE == house.gate.parked
    house.gate.release()
    await settle(300)
    assert house.begun == [sid(n) for n in range(AT_ONCE + 2)]
    assert await house.waits() == [] and not house.hooks.busy


async def test_who_waits_for_all_of_them_waits_for_what_runs(house, root):
    await house.end(1)
    house.hooks.wake("default")
    waiting = root.spawn(house.hooks.wait_idle(), name="wait").value
    await house.gate.wait_parked()
    await settle()
    assert not waiting.done()
    house.gate.release()
    await settle(100)
    assert waiting.done() and await house.waits() == []


async def test_who_waits_is_told_that_nothing_had_to_run(house, root):
    house.hooks.wake("elsewhere")
    waiting = root.spawn(house.hooks.wait_idle(), name="wait").value
    await settle()
    assert waiting.done()


async def test_an_end_whose_session_was_deleted_runs_nothing(house, root):
    heard = []
    root.on_failure = lambda failure, _: heard.append(failure)
    await house.end(1)

    async def deleted(_session_id: str) -> None:
        return None

    house.store.session = deleted
    house.hooks.wake("default")
    await settle(100)
    assert (house.begun, heard, house.hooks.busy) == ([], [], False)


async def test_one_is_told_whose_end_it_is_for(house):
    await house.end(1)
    house.gate.release()
    house.hooks.wake("default")
    await settle(100)
    (told,) = map(json.loads, house.told)
    assert (told["session_id"], told["reason"], told["ended_at"]) == (sid(1), "closed", 1.0)


async def test_what_waits_waits_on_where_there_is_no_hook_any_more(house):
    await house.end(1)
    house.config = Config()
    house.hooks.wake("default")
    await settle(100)
    assert (house.begun, await house.waits()) == ([], [sid(1)])
    await house.hooks.wait_started(sid(1), "default")
    assert house.begun == []


async def test_one_that_runs_is_not_taken_for_one_that_was_cut_off(house):
    await house.end(1)
    house.hooks.wake("default")
    await house.gate.wait_parked()
    house.hooks.wake("default")
    await settle(100)
    assert await house.waits() == [sid(1)]
    house.gate.release()
    await settle(100)
    assert (house.begun, await house.waits()) == ([sid(1)], [])


async def test_one_that_is_about_to_begin_is_not_begun_again(house):
    house.reading.append(reading := Gate())
    await house.end(1)
    for _ in range(3):
        house.hooks.wake("default")
        await settle()
    assert reading.parked == 1
    reading.release()
    house.gate.release()
    await settle(100)
    assert house.begun == [sid(1)] and await house.waits() == []


async def test_one_that_another_has_begun_is_left_to_it(house):
    house.reading.append(reading := Gate())
    await house.end(1)
    house.hooks.wake("default")
    await settle()
    await house.store.write(StartEnd(sid(1), 1, 5.0))
    reading.release()
    await settle(100)
    assert house.begun == [] and not house.hooks.busy and await house.waits() == [sid(1)]


async def test_one_whose_end_could_not_be_stored_is_not_looked_at_again(house):
    house.hooks.wake("default")
    await settle()  # what was there before us has been looked at
    await house.end(1)
    house.store.fail(StoreError("The disk is busy."), after=1)
    house.gate.release()
    house.hooks.wake("default")
    await settle(100)
    assert house.begun == [sid(1)] and await house.waits() == [sid(1)]
    house.reading.append(reading := Gate())
    house.hooks.wake("default")
    await settle(100)
    assert reading.parked == 0 and not house.hooks.busy


async def test_a_profile_that_cannot_be_opened_keeps_no_other_waiting(house):
    await house.end(1)
    house.gate.release()
    house.hooks.wake("nowhere")
    await settle()
    house.hooks.wake("default")
    await settle(100)
    assert house.begun == [sid(1)] and not house.hooks.busy
    assert (await house.scope.close()).failures == ()


async def test_one_looks_after_all_of_them(house):
    await house.end(*range(AT_ONCE + 1))
    for _ in range(3):
        house.hooks.wake("default")
        await settle(50)
    looking = [entry for entry in house.scope.census() if entry.label == "end hooks"]
    assert len(looking) == 1
    house.gate.release()
    await settle(300)
    assert len(house.begun) == AT_ONCE + 1 and not house.hooks.busy


async def test_while_the_gateway_ends_none_is_begun(house):
    await house.end(1)
    house.scope.claim("a test")
    house.hooks.wake("default")
    await settle()
    assert house.begun == [] and not house.hooks.busy


async def test_one_that_reads_nothing_is_waited_for(house):
    house.deaf = True
    await house.end(1)
    house.gate.release()
    house.hooks.wake("default")
    await settle(100)
    assert house.begun == [sid(1)] and await house.waits() == []


async def test_of_two_who_wait_for_one_to_begin_none_takes_it_from_the_other(house, root):
    house.reading.append(reading := Gate())
    await house.end(*range(1, AT_ONCE + 2))  # so that the last one waits, and who looks after them
    gate, look = Gate(), house.store.ends

    async def slowly():
        found = await look()
        await gate.park()
        return found

    def waits(n):
        return root.spawn(house.hooks.wait_started(sid(n), "default"), name="waits").value

    house.hooks.wake("default")
    await settle()
    house.store.ends = slowly
    first = waits(1)
    await gate.wait_parked()  # it has read that neither has begun
    reading.release()
    await settle(100)
    assert len(house.begun) == AT_ONCE
    house.store.ends = look
    second = waits(2)
    await settle()
    gate.release()
    await settle()
    assert second.done() and first.done()
    house.gate.release()
    await settle(300)
    assert not house.hooks.busy


async def test_who_waits_for_one_to_begin_waits_so_long(house, root, clock):
    house.reading.append(reading := Gate())
    await house.end(1)
    waiting = root.spawn(house.hooks.wait_started(sid(1), "default"), name="waits").value
    await settle()
    assert reading.parked == 1 and not waiting.done()
    clock.advance(TIMEOUT_S)
    await settle()
    assert waiting.done() and waiting.exception() is None
