"""Supervision: restart what fails, give up in time, never revive what was stopped."""

from __future__ import annotations

import asyncio

from tenure.lifecycle.supervisor import Supervisor
from tenure.testing.clock import settle
from tenure.testing.gates import Gate


class Child:
    """Fails as often as told; records the life of each run's scope."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.runs = 0
        self.alive = 0
        self.most_alive = 0
        self.up = Gate()

    async def run(self, scope) -> None:
        self.runs += 1
        self.alive += 1
        self.most_alive = max(self.most_alive, self.alive)
        scope.own("thing", self, Child.down)
        if self.runs <= self.failures:
            raise ValueError(f"run {self.runs}")
        await self.up.park()

    def down(self) -> None:
        self.alive -= 1


async def passing(clock, seconds: float) -> None:
    await settle()
    clock.advance(seconds)
    await settle()


async def test_restarts_and_one_incarnation_at_a_time(root, clock):
    heard = []
    root.on_failure = lambda failure, error: heard.append(str(error))
    child = Child(failures=2)
    supervised = Supervisor(root.child("s"), max_restarts=3).start("child", child.run)
    await passing(clock, 1)
    await passing(clock, 1)
    await child.up.wait_parked()
    assert (child.runs, supervised.restarts, child.alive, child.most_alive) == (3, 2, 1, 1)
    assert heard == ["run 1", "run 2"]


async def test_gives_up_at_the_stated_intensity(root, clock):
    heard = []
    root.on_failure = lambda failure, error: heard.append(failure.kind)
    child = Child(failures=100)
    supervised = Supervisor(root, max_restarts=3, within_s=60).start("child", child.run)
    for _ in range(10):
        await passing(clock, 5)
    assert child.runs == 4
    assert supervised.given_up
    assert heard == ["child"] * 3 + ["task"]
    assert root.census() == []


async def test_each_pause_is_twice_the_one_before(root, clock):
    heard = []
    root.on_failure = lambda failure, error: heard.append(failure)
    child = Child(failures=3)
    supervised = Supervisor(root, backoff_s=1).start("child", child.run)
    for runs, pause_s in enumerate([1, 2, 4], 1):
        await passing(clock, pause_s - 0.1)
        assert (child.runs, supervised.given_up) == (runs, False)
        await passing(clock, 0.1)
        assert child.runs == runs + 1
    first = heard[0]
    assert (first.kind, first.label, first.owner) == ("child", "child", "root")
    assert (first.outcome, first.error) == ("failed", "ValueError('run 1')")
    assert supervised.name == "child"
    assert [e.label for e in root.census() if e.kind == "task"] == ["supervise child"]
    assert {e.owner for e in root.census()} == {"root", "root/child"}


async def test_old_failures_are_forgotten(root, clock):
    root.on_failure = lambda *_: None
    child = Child(failures=6)
    Supervisor(root, max_restarts=1, within_s=60).start("child", child.run)
    for _ in range(7):
        await passing(clock, 61)
    assert child.runs == 7


async def test_a_normal_end_is_the_end(root):
    runs = []

    async def run(scope) -> None:
        runs.append(scope)

    Supervisor(root).start("child", run)
    await settle()
    assert len(runs) == 1
    assert root.census() == []


async def test_a_stopped_child_is_never_revived(root, clock):
    """The stop is recorded before the child ends, so that its end is not taken for a crash."""
    root.on_failure = lambda *_: None
    child = Child(failures=0)
    gate = Gate()

    async def run(scope) -> None:
        try:
            await child.run(scope)
        except asyncio.CancelledError:
            await gate.park()
            raise ValueError("looks like a crash") from None

    supervised = Supervisor(root).start("child", run)
    await child.up.wait_parked()
    stopping = asyncio.get_running_loop().create_task(supervised.stop())
    await gate.wait_parked()
    gate.release()
    await passing(clock, 1)  # past the backoff, not past the grace
    assert stopping.done()
    await supervised.stop()
    assert (child.runs, child.alive) == (1, 0)
    assert root.census() == []


async def test_a_child_that_fails_under_a_claim_is_not_started_again(root, clock):
    heard = []
    root.on_failure = lambda failure, error: heard.append(failure.kind)
    gate = Gate()

    async def run(scope) -> None:
        await gate.park()
        raise ValueError("on the way out")

    scope = root.child("s")
    supervised = Supervisor(scope).start("child", run)
    await gate.wait_parked()
    scope.claim("closing soon")
    gate.release()
    await passing(clock, 1)
    assert (await scope.close()).clean
    assert (supervised.restarts, heard) == (0, [])


async def test_closing_the_scope_stops_all(root, clock):
    child = Child(failures=0)
    scope = root.child("s")
    Supervisor(scope).start("child", child.run)
    await child.up.wait_parked()
    assert (await scope.close()).clean
    assert (child.runs, child.alive) == (1, 0)
