"""What an end leaves: no timer, no entry, and no wait for what cannot be killed."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from tenure.errors import ScopeClosed
from tenure.lifecycle.lease import KILL_GRACE_S
from tenure.testing.clock import settle
from tenure.testing.gates import Gate


async def test_a_kill_that_fails_is_reported_and_stops_nothing(root, clock):
    gate, ended = Gate(), []

    async def hangs(name: str) -> None:
        await gate.park()

    def fails(name: str) -> None:
        raise OSError(1, "not allowed")

    heard = []
    scope = root.child("scope")
    scope.on_failure = lambda failure, error: heard.append((failure.outcome, type(error)))
    scope.own("thing", "below", ended.append)
    scope.own("thing", "stuck", hangs, kill=fails, grace_s=1)
    closing = asyncio.create_task(scope.close())
    await gate.wait_parked()
    clock.advance(1)
    await settle()
    clock.advance(KILL_GRACE_S)
    await settle()
    assert closing.done(), "leaked, and the next one was released"
    assert ended == ["below"]
    killed, leaked = closing.result().failures
    assert (killed.outcome, "not allowed" in killed.error) == ("killed", True)
    assert (leaked.outcome, leaked.error) == ("leaked", "its release has not ended")
    assert heard == [("killed", PermissionError), ("leaked", type(None))]
    gate.release()
    await settle()


async def test_a_release_that_is_over_leaves_no_timer(root, clock):
    gate = Gate()

    async def release(name: str) -> None:
        await gate.park()

    before = clock.pending
    lease = root.own("thing", "a", release)
    ending = asyncio.create_task(lease.release())
    await gate.wait_parked()
    assert clock.pending == before + 1, "its grace"
    gate.release()
    await ending
    assert clock.pending == before


async def test_a_release_that_waits_is_kept_from_the_collector(root):
    """The loop itself knows its tasks weakly."""
    waits = []

    async def release(_: str) -> None:
        never = asyncio.get_running_loop().create_future()
        waits.append(weakref.ref(never))
        await never

    root.own("thing", "x", release).release_nowait()
    await settle()
    gc.collect()
    kept = waits[0]()
    assert kept is not None
    kept.set_result(None)
    await settle()
    assert root.census() == []


async def test_what_becomes_of_a_task_that_fails_is_told(root):
    heard = []
    root.on_failure = lambda failure, error: heard.append((failure, str(error)))

    async def fails() -> None:
        raise ValueError("no")

    assert root.spawn(fails(), name="work").value.get_name() == "work"
    await settle()
    ((failure, error),) = heard
    assert (failure.kind, failure.label, failure.outcome) == ("task", "work", "failed")
    assert (failure.error, error) == ("ValueError('no')", "no")


async def test_what_a_release_gives_back_is_nobodys(root):
    scope = root.child("scope")
    scope.own("thing", {"a": 1}, lambda thing: thing.pop("a"))
    assert (await scope.close()).clean


async def test_a_closed_scope_has_left_its_parent(root):
    child = root.child("child")
    await child.close()
    assert list(root._entries.values()) == []


async def test_a_kill_that_gives_back_the_last_borrowing_leaves_no_timer(root, clock):
    ended = []
    lease = root.own(
        "thing", "a", ended.append, kill=lambda _: lease.__exit__(None, None, None), grace_s=1
    )
    lease.__enter__()
    ending = asyncio.create_task(lease.release())
    await settle()
    clock.advance(1)
    await ending
    assert (ended, clock.pending) == (["a"], 0)


async def test_a_task_that_ended_while_it_was_borrowed_can_be_given_back(root):
    async def short() -> str:
        return "done"

    lease = root.spawn(short(), name="short")
    with lease as task:
        assert await task == "done"
    assert root.census() == []


async def test_a_release_that_is_cancelled_from_outside_is_a_failed_one(root):
    releasing = asyncio.get_running_loop().create_future()
    root.own("thing", "a", lambda _: releasing)
    closing = asyncio.create_task(root.close())
    await settle()
    releasing.cancel()
    await settle()
    assert closing.done()
    (failure,) = closing.result().failures
    assert "cancelled from outside" in failure.error


async def test_a_lease_that_is_over_keeps_nothing_alive(root):
    class Large:
        pass

    large = Large()
    gone = weakref.ref(large)
    lease = root.own("thing", large, lambda _: None)
    del large
    await lease.release()
    gc.collect()
    assert gone() is None, lease


async def test_a_scope_that_is_ended_admits_nothing(root):
    gate = Gate()

    async def release(name: str) -> None:
        await gate.park()

    scope = root.child("scope")
    scope.own("thing", "slow", release)
    _ = scope.end()
    with pytest.raises(ScopeClosed):
        scope.own("thing", "late", lambda _: None)
    gate.release()
    await scope.wait_closed()


async def test_a_cancel_of_every_task_does_not_stop_a_closing(root):
    gate, ended = Gate(), []

    async def release(name: str) -> None:
        await gate.park()
        ended.append(name)

    scope = root.child("scope")
    scope.own("thing", "below", ended.append)
    scope.own("thing", "slow", release)
    _ = scope.end()
    await gate.wait_parked()
    (driver,) = [task for task in asyncio.all_tasks() if task.get_name() == "close scope"]
    driver.cancel()
    await settle()
    gate.release()
    await settle()
    assert ended == ["slow", "below"]


async def test_a_report_is_of_what_its_own_closing_met(root):
    def fails(name: str) -> None:
        raise OSError("no")

    root.on_failure = lambda *_: None
    child = root.child("child")
    child.own("thing", "a", fails)
    assert not (await child.close()).clean
    assert (await root.close()).clean


async def test_who_has_stopped_waiting_is_forgotten(root):
    scope = root.child("scope")
    for _ in range(20):
        waiting = asyncio.create_task(scope.wait_closed())
        await settle()
        waiting.cancel()
        await settle()
    assert len(scope._waiters) <= 2


async def test_a_task_that_meets_the_claim_of_its_scope_has_not_failed(root):
    gate, go = Gate(), asyncio.Event()
    scope = root.child("scope")

    async def wants_more() -> None:
        await go.wait()
        scope.child("more")

    async def release(_name: str) -> None:
        await gate.park()

    task = scope.spawn(wants_more(), name="wants more").value
    scope.own("thing", "ends first", release)
    closing = asyncio.create_task(scope.close())
    await gate.wait_parked()
    go.set()
    await settle()
    assert isinstance(task.exception(), ScopeClosed)
    gate.release()
    assert (await closing).failures == ()


async def test_a_task_that_asks_a_closed_scope_while_its_own_is_open_has_failed(root):
    told = []
    root.on_failure = lambda failure, _error: told.append(failure.label)
    other = root.child("other")
    await other.close()

    async def wants_more() -> None:
        other.child("more")

    root.spawn(wants_more(), name="wants more")
    await settle()
    assert told == ["wants more"]


async def test_a_task_that_fails_while_its_scope_closes_has_failed(root):
    scope = root.child("scope")

    async def fails_at_its_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("the disk is gone")

    scope.spawn(fails_at_its_end(), name="fails")
    await settle()
    (failure,) = (await scope.close()).failures
    assert (failure.label, failure.outcome) == ("fails", "failed")
