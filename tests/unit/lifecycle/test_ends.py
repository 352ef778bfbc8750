"""What an end leaves: no timer, no entry, and no wait for what cannot be killed."""

from __future__ import annotations

import asyncio

from tenure.lifecycle.lease import KILL_GRACE_S
from tenure.testing.clock import settle
from tenure.testing.gates import Gate


async def test_a_kill_that_fails_is_reported_and_stops_nothing(root, clock):
    gate, ended = Gate(), []

    async def hangs(name: str) -> None:
        await gate.park()

    def fails(name: str) -> None:
        raise OSError(1, "not allowed")

    scope = root.child("scope")
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
    outcomes = [(f.outcome, "not allowed" in f.error) for f in closing.result().failures]
    assert outcomes == [("killed", True), ("leaked", False)]
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


async def test_a_closed_scope_has_left_its_parent(root):
    child = root.child("child")
    await child.close()
    assert list(root._entries.values()) == []
