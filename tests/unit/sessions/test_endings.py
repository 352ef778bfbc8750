"""Ends that the store refuses: kept, tried again in growing pauses, given up for nothing."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import LeaseLost, StoreFull
from tenure.sessions import endings as module
from tenure.sessions.endings import FIRST_PAUSE_S, Endings
from tenure.testing.clock import settle


class Journal:
    """Fails as often as told; knows what it was asked for and what it has stored."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.asked: list[str] = []
        self.stored: list[str] = []

    def record(self, ops, events):
        commit = asyncio.get_running_loop().create_future()
        self.asked.append(ops)
        if self.failures:
            commit.set_exception(self.failures.pop(0))
            commit.exception()
        else:
            self.stored.append(ops)
            commit.set_result([])
        return commit

    def record_nowait(self, ops, events) -> None:
        self.record(ops, events)


def full(times: int) -> list[Exception]:
    return [StoreFull("No space.") for _ in range(times)]


async def passing(clock, seconds: float) -> None:
    await settle()
    clock.advance(seconds)
    await settle()


@pytest.fixture
def scope(root):
    return root.child("session")


async def test_it_is_tried_again_in_growing_pauses_up_to_a_limit(scope, clock, monkeypatch):
    monkeypatch.setattr(module, "PAUSE_MAX_S", 3 * FIRST_PAUSE_S)
    journal = Journal(*full(5))
    Endings(journal, scope).store("end", [])
    tries = []
    for _ in range(12):
        await passing(clock, FIRST_PAUSE_S)
        tries.append(len(journal.asked))
    assert tries == [2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6]
    assert journal.stored == ["end"]
    assert scope.census() == [], "nobody goes on trying"


async def test_ends_keep_their_order_and_have_one_task(scope, clock):
    journal = Journal(*full(2))
    endings = Endings(journal, scope)
    for end in ("first", "second"):
        endings.store(end, [])
    await settle()
    assert len(scope.census()) == 1
    await passing(clock, FIRST_PAUSE_S)
    await passing(clock, 2 * FIRST_PAUSE_S)
    assert journal.stored == ["first", "second"]
    journal.failures = full(1)
    endings.store("third", [])
    await passing(clock, FIRST_PAUSE_S)
    assert journal.stored[2:] == ["third"], "and again, when all was well meanwhile"


async def test_what_was_fenced_off_is_not_tried_again(scope, clock):
    journal = Journal(LeaseLost("It is over."))
    endings = Endings(journal, scope)
    endings.store("fenced", [])
    await settle()
    assert scope.census() == []
    journal.failures = full(2)
    endings.store("fenced meanwhile", [])
    endings.store("good", [])
    await settle()
    journal.failures = [LeaseLost("It is over.")]
    await passing(clock, FIRST_PAUSE_S)
    await passing(clock, 2 * FIRST_PAUSE_S)
    assert journal.stored == ["good"]


async def test_a_closing_tries_once_more_and_begins_no_task(scope):
    journal = Journal(*full(1))
    endings = Endings(journal, scope)
    scope.claim("closing")
    endings.store("end", [])
    await settle()
    assert journal.stored == []
    endings.last_try()
    endings.last_try()
    assert journal.stored == ["end"]
