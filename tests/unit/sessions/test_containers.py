"""Rows of containers: fenced, aged, compared while there are any."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from tenure.errors import ProcessError
from tenure.sandbox.docker import Compared
from tenure.sessions import containers as module
from tenure.sessions.containers import EVERY_S, KEEP_S, ContainerRows, ContainerWatch
from tenure.store.base import Fence, PruneContainers
from tenure.testing.clock import settle


class Store:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.writes: list[tuple[object, ...]] = []
        self.live: list[SimpleNamespace] = []

    async def write(self, *ops) -> None:
        self.writes.append(ops)

    async def containers(self) -> list[SimpleNamespace]:
        return self.live


@pytest.fixture
def store() -> Store:
    return Store()


async def test_a_row_is_written_by_the_owner_of_the_session_alone(store, clock):
    await ContainerRows(store, clock, "here").begin("lease", "s1", 3)
    assert store.writes[0][0] == Fence("session:s1", 3)


async def test_it_is_compared_now_and_then_while_there_are_any(root, clock, store, monkeypatch):
    looks: list[float] = []
    engine = SimpleNamespace(used=asyncio.Event(), held={"one"})

    async def compare(*_):
        looks.append(clock.monotonic() - began)
        if len(looks) == 2:
            raise ProcessError("The engine is not there.")
        return Compared((), ())

    monkeypatch.setattr(module, "compare", compare)
    began = clock.monotonic()
    ContainerWatch(root, engine, ContainerRows(store, clock, "here")).begin()
    await settle()
    assert looks == [], "nothing is used yet"
    engine.used.set()
    for _ in range(3):
        await settle()
        clock.advance(EVERY_S / 2)
        await settle()
        clock.advance(EVERY_S / 2)
    await settle()
    assert looks == [EVERY_S, 2 * EVERY_S, 3 * EVERY_S], "a failure is not the last one"
    assert store.writes == [(PruneContainers(clock.wall() - (3 - n) * EVERY_S - KEEP_S),)
                            for n in (1, 3)]  # fmt: skip
    engine.held.clear()
    clock.advance(EVERY_S)
    await settle()
    clock.advance(10 * EVERY_S)
    await settle()
    assert len(looks) == 4, "nothing is used any more"
