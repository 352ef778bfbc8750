"""Shared things: built once, given back by each, ended by the last, never two of one key."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import ScopeClosed
from tenure.lifecycle.shared import Shared
from tenure.testing.clock import settle
from tenure.testing.gates import Gate


class Source:
    """Builds and releases numbered things, each step at a gate if the test wants."""

    def __init__(self) -> None:
        self.built = 0
        self.alive = 0
        self.most_alive = 0
        self.build_gate: Gate | None = None
        self.release_gate: Gate | None = None
        self.error: Exception | None = None

    async def build(self, key: str) -> str:
        if self.build_gate is not None:
            await self.build_gate.park()
        if self.error is not None:
            raise self.error
        self.built += 1
        self.alive += 1
        self.most_alive = max(self.most_alive, self.alive)
        return f"{key}{self.built}"

    async def release(self, _: str) -> None:
        if self.release_gate is not None:
            await self.release_gate.park()
        self.alive -= 1


@pytest.fixture
def source() -> Source:
    return Source()


def shared_of(root, source, idle_s: float = 0.0) -> Shared[str, str]:
    return Shared(
        root.child("shared"), "db", build=source.build, release=source.release, idle_s=idle_s
    )


def task(coro):
    return asyncio.get_running_loop().create_task(coro)


async def test_closing_one_borrower_leaves_the_thing_to_the_others(root, source):
    shared = shared_of(root, source)
    a, b = root.child("a"), root.child("b")
    assert await shared.borrow("k", a) == await shared.borrow("k", b) == "k1"
    await a.close()
    await settle()
    assert source.alive == 1
    await b.close()
    await settle()
    assert source.alive == 0
    assert len(shared) == 0
    assert await shared.borrow("k", root.child("c")) == "k2"


async def test_single_flight_and_a_cancelled_borrower(root, source):
    shared = shared_of(root, source)
    source.build_gate = Gate()
    scopes = [root.child(str(number)) for number in range(3)]
    borrowing = [task(shared.borrow("k", scope)) for scope in scopes]
    await source.build_gate.wait_parked()
    borrowing[0].cancel()
    await settle()
    source.build_gate.release()
    assert [await one for one in borrowing[1:]] == ["k1", "k1"]
    with pytest.raises(asyncio.CancelledError):
        await borrowing[0]
    await scopes[1].close()
    await settle()
    assert source.alive == 1
    await scopes[2].close()
    await settle()
    assert (source.built, source.alive) == (1, 0)


async def test_all_borrowers_cancelled_the_product_is_released(root, source):
    shared = shared_of(root, source)
    source.build_gate = Gate()
    borrowing = task(shared.borrow("k", root.child("a")))
    await source.build_gate.wait_parked()
    borrowing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await borrowing
    late = task(shared.borrow("k", root.child("b")))  # must not get the abandoned one
    await settle()
    source.build_gate.release()
    assert await late == "k2"
    assert (source.alive, source.most_alive, len(shared)) == (1, 1, 1)


async def test_a_failed_build_fails_all_who_wait_and_the_next_tries_again(root, source):
    shared = shared_of(root, source)
    source.build_gate, source.error = Gate(), ValueError("no")
    borrowing = [task(shared.borrow("k", root.child(str(n)))) for n in range(2)]
    await source.build_gate.wait_parked()
    source.build_gate.release()
    for one in borrowing:
        with pytest.raises(ValueError, match="no"):
            await one
    assert len(shared) == 0
    source.error = None
    assert await shared.borrow("k", root.child("c")) == "k1"


async def test_idle_time(root, source, clock):
    shared = shared_of(root, source, idle_s=10)
    for _ in range(2):
        scope = root.child("a")
        assert await shared.borrow("k", scope) == "k1"
        await scope.close()
        clock.advance(9)
        await settle()
        assert source.alive == 1
    clock.advance(1)
    await settle()
    assert source.alive == 0
    assert len(shared) == 0


async def test_old_and_new_never_coexist(root, source):
    shared = shared_of(root, source)
    a = root.child("a")
    await shared.borrow("k", a)
    source.release_gate = Gate()
    await a.close()
    await source.release_gate.wait_parked()
    again = task(shared.borrow("k", root.child("b")))
    await settle()
    assert not again.done()
    source.release_gate.release()
    assert await again == "k2"
    assert source.most_alive == 1


async def test_discard_waits_for_borrowers_and_the_next_gets_a_new_one(root, source):
    shared = shared_of(root, source)
    a = root.child("a")
    await shared.borrow("k", a)
    discarding = task(shared.discard("k"))
    again = task(shared.borrow("k", root.child("b")))
    await settle()
    assert source.alive == 1
    assert not again.done()
    await a.close()
    await discarding
    assert await again == "k2"
    await shared.discard("unknown")


async def test_all_who_wait_for_the_end_of_the_old_get_one_new(root, source):
    shared = shared_of(root, source)
    a = root.child("a")
    await shared.borrow("k", a)
    source.release_gate = Gate()
    await a.close()
    waiting = [task(shared.borrow("k", root.child(str(n)))) for n in range(3)]
    await source.release_gate.wait_parked()
    source.release_gate.release()
    assert [await one for one in waiting] == ["k2"] * 3


async def test_the_end_of_what_idles_is_waited_for_and_what_is_borrowed_stays(root, source, clock):
    shared = shared_of(root, source, idle_s=60)
    a = root.child("a")
    await shared.borrow("idle", a)
    await a.close()
    await shared.borrow("used", root.child("b"))
    source.release_gate = Gate()
    ending = task(shared.end_idle())
    await source.release_gate.wait_parked()
    await settle()
    assert not ending.done()
    assert clock.pending == 1, "the grace of the release; none for the idle time"
    source.release_gate.release()
    await ending
    assert (source.alive, list(shared._slots)) == (1, ["used"])


async def test_of_several_that_idle_all_end_at_once(root, source):
    shared = shared_of(root, source, idle_s=60)
    a = root.child("a")
    for key in "kln":
        await shared.borrow(key, a)
    await a.close()
    ending = task(shared.end_idle())
    await settle()
    assert ending.done() and (source.alive, len(shared)) == (0, 0)


async def test_a_thing_and_its_borrowings_stand_in_the_census(root, source):
    await shared_of(root, source).borrow("k", root.child("a"))
    assert [(e.owner, e.kind, e.label) for e in root.census()] == [
        ("root/shared", "db", "k"),
        ("root/a", "borrowed db", "k"),
    ]


async def test_a_release_that_hangs_has_the_grace_that_was_said(root, source, clock):
    shared = Shared(root, "db", build=source.build, release=source.release, grace_s=3)
    source.release_gate = Gate()
    a = root.child("a")
    await shared.borrow("k", a)
    await a.close()
    await source.release_gate.wait_parked()
    clock.advance(2.9)
    assert [e.state for e in root.census()] == ["releasing"]
    clock.advance(0.1)
    assert [e.state for e in root.census()] == ["leaked"]
    source.release_gate.release()


async def test_a_key_is_there_until_its_end_is_over(root, source):
    shared = Shared(root, "db", build=source.build, release=lambda _: None, idle_s=60)
    a = root.child("a")
    await shared.borrow("k", a)
    await a.close()
    assert ("k" in shared, "l" in shared) == (True, False)
    await shared.end_idle()
    assert ("k" in shared, len(shared)) == (False, 0)


async def test_what_idles_under_a_closing_ends_in_its_place_there(root, source):
    shared, a, later = shared_of(root, source), root.child("a"), Gate()
    await shared.borrow("k", a)
    shared._scope.own("later", 1, lambda _: later.park())
    closing = task(shared._scope.close())
    await later.wait_parked()
    await a.close()
    ending = task(shared.end_idle())
    await settle()
    assert (ending.done(), source.alive) == (False, 1)
    later.release()
    await closing
    await ending
    assert (source.alive, len(shared)) == (0, 0)


async def test_what_could_not_be_built_does_not_idle(root, source, clock):
    shared = shared_of(root, source, idle_s=60)
    source.error = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        await shared.borrow("k", root.child("a"))
    assert clock.pending == 0


async def test_a_borrower_that_closed_meanwhile_gives_back_at_once(root, source):
    shared = shared_of(root, source)
    source.build_gate = Gate()
    a = root.child("a")
    borrowing = task(shared.borrow("k", a))
    await source.build_gate.wait_parked()
    await a.close()
    source.build_gate.release()
    with pytest.raises(ScopeClosed):
        await borrowing
    await settle()
    assert (source.built, source.alive, len(shared)) == (1, 0, 0)


async def test_the_close_of_the_longer_scope_releases_what_idles(root, source, clock):
    scope = root.child("longer")
    shared: Shared[str, str] = Shared(
        scope, "db", build=source.build, release=source.release, idle_s=60
    )
    a = root.child("a")
    await shared.borrow("k", a)
    await a.close()
    await scope.close()
    assert source.alive == 0
    with pytest.raises(ScopeClosed):
        await shared.borrow("k", root.child("b"))


async def test_a_thing_that_nobody_uses_leaves_no_timer_when_its_scope_is_closed(
    root, source, clock
):
    scope, user = root.child("shared"), root.child("user")
    shared = Shared(scope, "db", build=source.build, release=source.release, idle_s=60)
    await shared.borrow("k", user)
    await user.close()
    assert clock.pending == 1
    await scope.close()
    await settle()
    assert (clock.pending, len(shared), source.alive) == (0, 0, 0)
