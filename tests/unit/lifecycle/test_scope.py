"""Scopes: what is owned ends once, in reverse, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import gc

import pytest

from tenure.clock import SystemClock
from tenure.errors import LeaseClosed, LifecycleError, ScopeClosed
from tenure.lifecycle.entry import LeaseState, ScopeState
from tenure.lifecycle.lease import KILL_GRACE_S
from tenure.lifecycle.scope import FAILURES_MAX, Scope
from tenure.testing.clock import settle
from tenure.testing.gates import Gate, ThreadGate


class Log(list):
    """Records releases by name."""

    def release(self, name: str) -> None:
        self.append(name)

    def gated(self, gate: Gate):
        async def release(name: str) -> None:
            self.append(f"{name} begins")
            await gate.park()
            self.append(name)

        return release


@pytest.fixture
def log() -> Log:
    return Log()


def own(scope: Scope, log: Log, *names: str):
    return [scope.own("thing", name, log.release, label=name) for name in names]


def task(coro):
    return asyncio.get_running_loop().create_task(coro)


def labels(scope: Scope) -> list[str]:
    return [entry.label for entry in scope.census()]


# --- owning and closing -----------------------------------------------------------------------


async def test_release_is_the_reverse_of_acquisition_children_included(root, log):
    own(root, log, "a")
    child = root.child("child")
    own(child, log, "c1", "c2")
    own(root, log, "b")
    own(child, log, "c3")  # later than b, but the child's place is before it
    report = await root.close("done")
    assert log == ["b", "c3", "c2", "c1", "a"]
    assert report.clean
    assert (report.path, report.reason) == ("root", "done")
    assert root.census() == []
    assert root.state is child.state is ScopeState.CLOSED


async def test_paths_and_census(root, log, clock):
    child = root.child("session:1").child("turn:2")
    child.own("process", "p", log.release, label="sh", pid=7)
    clock.advance(3)
    (entry,) = root.census()
    assert (entry.kind, entry.owner, entry.label, entry.state, entry.age_s, entry.pid) == (
        "process", "root/session:1/turn:2", "sh", "held", 3.0, 7,
    )  # fmt: skip


async def test_claim_is_synchronous_has_one_winner_and_stops_the_subtree(root, log):
    child = root.child("a").child("b")
    (lease,) = own(child, log, "x")
    assert root.claim("first") is True
    assert root.claim("second") is False
    assert child.claim("third") is False
    for scope in (root, child):
        assert (scope.state, scope.reason) == (ScopeState.CLOSING, "first")
        with pytest.raises(ScopeClosed, match="first"):
            scope.child("c")
    with pytest.raises(LeaseClosed):
        lease.__enter__()
    assert log == []  # a claim releases nothing
    report = await root.close("fourth")
    assert report.reason == "first"
    assert log == ["x"]


async def test_close_is_idempotent_and_everyone_gets_the_one_report(root, log):
    gate = Gate()
    root.own("thing", "slow", log.gated(gate))
    closers = [task(root.close(str(number))) for number in range(3)]
    waiter = task(root.wait_closed())
    await gate.wait_parked()
    gate.release()
    reports = [await closer for closer in [*closers, waiter]]
    assert all(report is reports[0] for report in reports)
    assert await root.close() is reports[0]
    assert log == ["slow begins", "slow"]


async def test_late_own_is_released_at_once_then_refused(root, log):
    child = root.child("c")
    await child.close("gone")
    with pytest.raises(ScopeClosed, match="gone"):
        own(child, log, "late")
    assert log == ["late"]
    assert root.census() == []


async def test_a_late_slow_product_stands_in_the_census_until_it_is_gone(root, log):
    gate = Gate()
    child = root.child("c")
    await child.close()
    with pytest.raises(ScopeClosed):
        child.own("thing", "late", log.gated(gate), label="late")
    closing = task(root.close())
    await gate.wait_parked()
    assert [(e.owner, e.label, e.state) for e in root.census()] == [
        ("root/disposer", "late", "releasing")
    ]
    assert not closing.done()  # the root waits for late products
    gate.release()
    await closing
    assert root.census() == []


async def test_a_late_product_that_hangs_is_killed(root, log, clock):
    gate, killed = Gate(), []
    child = root.child("c")
    await child.close()
    with pytest.raises(ScopeClosed):
        child.own("thing", "late", log.gated(gate), kill=killed.append, grace_s=3, label="l")
    await gate.wait_parked()
    assert [(e.kind, e.label) for e in root.census()] == [("thing", "l")]
    clock.advance(3)
    assert killed == ["late"]
    gate.release()


async def test_a_late_product_keeps_no_scope_below_the_root(root, log):
    gate = Gate()
    child, other = root.child("c"), root.child("other")
    await child.close()
    with pytest.raises(ScopeClosed):
        child.own("thing", "late", log.gated(gate))
    assert other.end() is None
    await gate.wait_parked()
    gate.release()


async def test_what_takes_no_time_ends_at_once(root, log):
    child = root.child("c")
    own(child.child("below"), log, "a")
    own(child, log, "b")
    assert child.end() is None
    assert (log, child.state, root.census()) == (["b", "a"], ScopeState.CLOSED, [])
    assert child.end() is None


async def test_the_reason_of_a_block_is_how_it_was_left(root):
    async with root.child("well") as well:
        pass
    with pytest.raises(KeyError):
        async with root.child("badly") as badly:
            raise KeyError
    assert (well.reason, badly.reason) == ("done", "left by KeyError")


async def test_a_late_product_that_leaks_is_not_waited_for_any_more(root, log, clock):
    gate = Gate()
    child = root.child("c")
    await child.close()
    with pytest.raises(ScopeClosed):
        child.own("thing", "late", log.gated(gate), grace_s=3)
    closing = task(root.close())
    await gate.wait_parked()
    await settle()
    assert not closing.done()
    clock.advance(3)
    await settle()
    assert (closing.done(), [e.state for e in root.census()]) == (True, ["leaked"])
    gate.release()
    await settle()
    assert root.census() == []


async def test_a_failing_release_is_recorded_and_the_next_goes_on(root, log):
    heard = []
    root.on_failure = lambda failure, error: heard.append((failure.label, str(error)))

    def fail(name: str) -> None:
        raise ValueError(name)

    async def fail_later(name: str) -> None:
        await asyncio.sleep(0)
        raise ValueError(name)

    own(root, log, "a")
    child = root.child("child")
    child.own("thing", "b", fail, label="b")
    child.own("thing", "c", fail_later, label="c")
    own(root, log, "d")
    closing = task(root.close())
    await settle()
    assert closing.done()
    report = await closing
    assert log == ["d", "a"]
    assert [(f.label, f.outcome, f.owner) for f in report.failures] == [
        ("c", "failed", "root/child"), ("b", "failed", "root/child"),
    ]  # fmt: skip
    assert heard == [("c", "c"), ("b", "b")]


async def test_a_failing_listener_does_not_stop_the_closing(root, log, caplog):
    root.on_failure = lambda *_: 1 / 0
    own(root, log, "a")
    root.own("thing", "b", lambda _: 1 / 0)
    assert len((await root.close()).failures) == 1
    assert log == ["a"]
    assert "listener" in caplog.text


async def test_reports_are_bounded(root, caplog):
    for _ in range(FAILURES_MAX + 10):
        await root.own("thing", 0, lambda value: 1 / value).release()
    assert len((await root.close()).failures) == FAILURES_MAX


async def test_cancelling_a_closers_waiter_never_stops_the_closing(root, log):
    gate = Gate()
    own(root, log, "a")
    root.own("thing", "b", log.gated(gate))
    closing = task(root.close())
    await gate.wait_parked()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    gate.release()
    await root.wait_closed()
    assert log == ["b begins", "b", "a"]


async def test_patience_belongs_to_the_waiter(root, log, clock):
    gate = Gate()
    root.own("thing", "a", log.gated(gate))
    closing = task(root.close(patience_s=1))
    await gate.wait_parked()
    clock.advance(1)
    await settle()
    assert closing.done()
    with pytest.raises(TimeoutError):
        await closing
    assert root.state is ScopeState.CLOSING
    gate.release()
    assert (await root.close()).clean


async def test_a_task_may_close_its_own_scope(root, log):
    child = root.child("c")
    own(child, log, "a")
    child.spawn(child.close("by itself"), name="self")
    report = await child.wait_closed()
    assert report.reason == "by itself"
    assert log == ["a"]


async def test_leaving_the_block_closes(root, log):
    async with root.child("c") as scope:
        own(scope, log, "a")
    assert log == ["a"]
    with pytest.raises(KeyError):
        async with root.child("c") as scope:
            raise KeyError
    assert scope.reason == "left by KeyError"


async def test_two_trees_do_not_mix(root, log):
    other = Scope.root("other", SystemClock())
    (lease,) = own(root, log, "a")
    with pytest.raises(LifecycleError):
        lease.move_to(other)
    await other.close()


# --- the seven that looked right and were wrong -------------------------------------------------


async def test_a_pending_build_holds_its_place(root, log):
    """a: a build that is awaited last would lose what it builds on while it still uses it."""
    gate = Gate()
    own(root, log, "database")

    async def start() -> str:
        await gate.park()
        log.append("built")
        return "agent"

    building = task(root.build("agent", start, log.release))
    await gate.wait_parked()
    own(root, log, "later")
    closing = task(root.close())
    await settle()
    assert log == ["later"]
    assert [entry.state for entry in root.census()] == ["held", "building"]
    gate.release()
    await closing
    assert log == ["later", "built", "agent", "database"]
    with pytest.raises(ScopeClosed):
        await building


async def test_several_builds_each_hold_their_place(root, log):
    gates = [Gate() for _ in range(3)]

    async def start(number: int) -> str:
        await gates[number].park()
        return f"b{number}"

    builds = []
    for number in range(3):
        builds.append(task(root.build("b", lambda n=number: start(n), log.release)))
        await gates[number].wait_parked()
        own(root, log, f"x{number}")
    closing = task(root.close())
    for number in (0, 2, 1):  # they arrive in another order than they must leave
        gates[number].release()
        await settle()
    await closing
    assert log == ["x2", "b2", "x1", "b1", "x0", "b0"]
    for build in builds:
        with pytest.raises(ScopeClosed):
            await build


async def test_a_release_is_killed_never_cancelled(root, log, clock):
    """b: a release that is cancelled by its own timeout frees nothing."""
    gate = Gate()
    own(root, log, "below")

    async def release(name: str) -> None:
        try:
            await gate.park()
        except asyncio.CancelledError:
            log.append("cancelled")
            raise
        log.append(name)

    def kill(name: str) -> None:
        log.append(f"kill {name}")
        gate.release()

    root.own("thing", "stuck", release, kill=kill, grace_s=3, label="stuck")
    closing = task(root.close())
    await gate.wait_parked()
    clock.advance(2.9)
    await settle()
    assert log == []
    clock.advance(0.1)
    await settle()
    assert closing.done()
    report = await closing
    assert log == ["kill stuck", "stuck", "below"]
    assert [failure.outcome for failure in report.failures] == ["killed"]


async def test_each_release_has_its_own_grace(root, log, clock):
    gates = [Gate(), Gate()]
    for number, gate in enumerate(gates):
        root.own("thing", str(number), log.gated(gate), grace_s=3)
    closing = task(root.close())
    await gates[1].wait_parked()
    clock.advance(2.9)
    gates[1].release()
    await gates[0].wait_parked()
    clock.advance(2.9)
    await settle()
    gates[0].release()
    assert (await closing).clean


async def test_what_even_kill_does_not_end_is_leaked_reported_and_still_in_the_census(
    root, log, clock, caplog
):
    gate = Gate()
    own(root, log, "below")
    lease = root.own(
        "thing", "stuck", log.gated(gate), kill=lambda _: 1 / 0, grace_s=3, label="stuck"
    )
    closing = task(root.close())
    await gate.wait_parked()
    clock.advance(3)
    clock.advance(KILL_GRACE_S)
    await settle()
    assert closing.done(), "what has leaked is not waited for"
    report = await closing
    assert lease.state is LeaseState.LEAKED
    assert [failure.outcome for failure in report.failures] == ["killed", "leaked"]
    assert "ZeroDivisionError" in report.failures[0].error
    assert log == ["stuck begins", "below"]
    assert [(e.owner, e.state) for e in root.census()] == [("root/disposer", "leaked")]
    gate.release()
    await settle()
    assert log[-1] == "stuck"
    assert root.census() == []
    assert lease.state is LeaseState.RELEASED


async def test_a_parent_joins_a_child_that_is_closing_already(root, log):
    """c: two drivers would release in the wrong order."""
    gate = Gate()
    own(root, log, "below")
    child = root.child("c")
    own(child, log, "c1")
    child.own("thing", "c2", log.gated(gate))
    first = task(child.close("first"))
    await gate.wait_parked()
    second = task(root.close("second"))
    again = task(child.close("third"))
    await settle()
    assert log == ["c2 begins"]
    assert [one.get_name() for one in asyncio.all_tasks()].count("close c") == 1
    gate.release()
    assert (await second).reason == "second"
    assert (await first) is (await again) is (await child.close())
    assert (await first).reason == "first"
    assert log == ["c2 begins", "c2", "c1", "below"]


async def test_an_early_release_keeps_its_place_until_it_is_over(root, log):
    """d: its dependency would be freed under it."""
    gate = Gate()
    own(root, log, "database")
    lease = root.own("thing", "writer", log.gated(gate), label="writer")
    early = task(lease.release())
    await gate.wait_parked()
    assert labels(root) == ["database", "writer"]
    closing = task(root.close())
    await settle()
    assert log == ["writer begins"]
    gate.release()
    await closing
    await early
    assert log == ["writer begins", "writer", "database"]


async def test_keys_are_never_reused(root, log):
    """e: keys from `id()` repeat when an address is reused; a live lease is then overwritten."""
    keys = set()
    for _ in range(200):
        lease = root.own("thing", "x", log.release)
        keys.add(lease.key)
        lease.release_nowait()
        del lease
        gc.collect(0)
    assert len(keys) == 200

    async def start() -> str:
        return "b"

    builds = [task(root.build("b", start, log.release)) for _ in range(4)]
    for build in builds:
        await build
    assert len(root.census()) == 4
    log.clear()
    await root.close()
    assert log == ["b"] * 4


async def test_an_early_release_is_claimed_at_the_call(root, log):
    """f: claimed a step later, a lease could be moved or borrowed while it is being released."""
    other = root.child("other")
    gate = Gate()
    lease = root.own("thing", "a", log.gated(gate))
    waiting = lease.release()  # not awaited yet
    assert lease.state is LeaseState.RELEASING
    with pytest.raises(LeaseClosed):
        lease.move_to(other)
    with pytest.raises(LeaseClosed):
        lease.__enter__()
    gate.release()
    await waiting
    await lease.release()
    assert log == ["a begins", "a"]


async def test_build_and_release_each_run_in_one_task_of_their_own(root):
    """g: what is entered in one task must be left in it; so the keeper is never the caller."""
    tasks = []

    async def start() -> str:
        tasks.append(asyncio.current_task())
        return "x"

    async def release(_: str) -> None:
        tasks.append(asyncio.current_task())

    await (await root.build("x", start, release)).release()
    assert asyncio.current_task() not in tasks
    assert len(tasks) == 2


async def test_a_keeper_task_holds_what_must_be_left_where_it_was_entered(root):
    """g, the way to do it: a spawned task enters, serves, and leaves on its cancellation."""
    entered: list[asyncio.Task | None] = []

    async def keep() -> None:
        entered.append(asyncio.current_task())
        try:
            await asyncio.Event().wait()
        finally:
            entered.append(asyncio.current_task())

    root.spawn(keep(), name="keeper")
    await settle()
    await task(root.close())
    assert entered[0] is entered[1]


# --- building ------------------------------------------------------------------------------------


async def test_a_cancelled_callers_product_is_released_on_arrival(root, log):
    gate = Gate()

    async def start() -> str:
        await gate.park()
        return "x"

    building = task(root.build("thing", start, log.release))
    await gate.wait_parked()
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert [entry.state for entry in root.census()] == ["building"]
    gate.release()
    await settle()
    assert log == ["x"]
    assert root.census() == []


async def test_cancelled_in_the_step_of_the_arrival(root, log):
    async def start() -> str:
        return "x"

    building = task(root.build("thing", start, log.release))
    while not root.census() or root.census()[0].state != "held":
        await asyncio.sleep(0)
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert log == ["x"]


async def test_released_before_its_caller_runs_again(root, log):
    """The product arrives under a claim and is gone again within one step of the loop."""
    gate = Gate()

    async def start() -> str:
        await gate.park()
        return "x"

    building = task(root.build("thing", start, log.release))
    await gate.wait_parked()
    closing = task(root.close())
    await settle()
    # The closing's waiter comes first, so that it releases before the caller is woken.
    (lease,) = root._entries.values()
    lease._waiters.reverse()
    gate.release()
    await closing
    with pytest.raises(ScopeClosed):
        await building


async def test_cancelled_under_a_claim_the_product_still_keeps_its_place(root, log):
    gate = Gate()

    async def start() -> str:
        await gate.park()
        return "b"

    building = task(root.build("b", start, log.release))
    await gate.wait_parked()
    slow = Gate()
    root.own("thing", "above", log.gated(slow))
    closing = task(root.close())
    await slow.wait_parked()
    building.cancel()
    gate.release()
    await settle()
    assert log == ["above begins"]
    slow.release()
    await closing
    assert log == ["above begins", "above", "b"]
    with pytest.raises(asyncio.CancelledError):
        await building


async def test_a_build_that_raises_holds_nothing(root):
    async def start() -> str:
        raise ValueError("no")

    heard = []
    root.on_failure = lambda failure, error: heard.append(str(error))
    with pytest.raises(ValueError, match="no"):
        await root.build("thing", start, print)
    assert root.census() == []
    assert heard == [], "whoever waited has it"


async def test_a_build_that_fails_after_its_caller_has_gone_is_reported(root):
    heard = []
    root.on_failure = lambda failure, error: heard.append((failure.outcome, str(error)))
    gate = Gate()

    async def start() -> str:
        await gate.park()
        raise ValueError("nobody waits")

    building = task(root.build("thing", start, print))
    await gate.wait_parked()
    building.cancel()
    gate.release()
    with pytest.raises(asyncio.CancelledError):
        await building
    await settle()
    assert heard == [("failed", "nobody waits")]
    assert root.census() == []


async def test_a_build_cancelled_from_inside_does_not_look_like_the_callers_cancellation(root):
    async def start() -> str:
        raise asyncio.CancelledError

    building = task(root.build("thing", start, print))
    await settle()
    assert building.done()
    with pytest.raises(LifecycleError, match="cancelled from inside"):
        await building


async def test_several_steps_of_one_build_stop_at_the_claim(root, log):
    """Steps before the claim are released once; steps after it never run."""
    scope = root.child("s")
    gate = Gate()

    async def agent() -> str:
        own(scope, log, "client")
        await gate.park()
        own(scope, log, "tools")
        log.append("unreachable")
        return "agent"

    building = task(scope.build("agent", agent, log.release))
    await gate.wait_parked()
    closing = task(scope.close())
    gate.release()
    await closing
    with pytest.raises(ScopeClosed):
        await building
    assert log == ["client", "tools"]


async def test_build_in_a_thread_survives_its_callers_cancellation(root, log):
    gate = ThreadGate()

    def start() -> str:
        gate.park()
        return "x"

    building = task(root.build_in_thread("thing", start, log.release))
    await gate.wait_parked()
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    gate.release()
    assert (await root.close()).clean
    assert log == ["x"]


async def test_a_release_that_is_asked_for_during_the_build_counts_though_the_asker_leaves(
    root, log
):
    gate = Gate()

    async def start() -> str:
        await gate.park()
        return "x"

    lease = root.reserve("thing", start, log.release)
    asking = task(lease.release())
    await gate.wait_parked()
    asking.cancel()
    await settle()
    gate.release()
    await settle()
    assert (log, root.census()) == (["x"], [])


async def test_whoever_asks_for_a_release_during_the_build_waits_for_the_end_of_both(root, log):
    built, released = Gate(), Gate()

    async def start() -> str:
        await built.park()
        return "x"

    asking = task(root.reserve("thing", start, log.gated(released)).release())
    await built.wait_parked()
    built.release()
    await released.wait_parked()
    await settle()
    assert not asking.done()
    released.release()
    await asking
    assert root.census() == []


async def test_what_a_thread_has_built_ends_as_what_it_was_said_to_be(root, log, clock):
    gate, killed = Gate(), []
    lease = await root.build_in_thread(
        "thing", lambda: "x", log.gated(gate), kill=killed.append, grace_s=3, label="one"
    )
    assert (lease.kind, lease.label) == ("thing", "one")
    lease.release_nowait()
    await gate.wait_parked()
    clock.advance(2.9)
    assert killed == []
    clock.advance(0.1)
    assert killed == ["x"]
    gate.release()


# --- tasks -----------------------------------------------------------------------------------------


async def test_a_finished_task_leaves_the_tree(root):
    async def work() -> int:
        return 3

    lease = root.spawn(work(), name="work")
    assert labels(root) == ["work"]
    assert await lease.value == 3
    await settle()
    assert root.census() == []


async def test_a_failing_task_is_reported_once(root):
    heard = []
    root.on_failure = lambda failure, error: heard.append((failure.kind, failure.label, error))

    async def work() -> None:
        raise ValueError("x")

    root.child("c").spawn(work(), name="work")
    await settle()
    ((kind, label, error),) = heard
    assert (kind, label, str(error)) == ("task", "work", "x")


async def test_without_a_listener_a_failure_is_logged(root, caplog):
    async def work() -> None:
        raise ValueError("told in the log")

    root.spawn(work(), name="work")
    await settle()
    assert "told in the log" in caplog.text


async def test_a_task_cancelled_before_its_first_step(root, log):
    own(root, log, "a")

    async def never() -> None:
        log.append("ran")

    root.spawn(never(), name="never")
    await root.close()
    assert log == ["a"]


async def test_spawning_on_a_closed_scope_closes_the_coroutine(root):
    await root.close()

    async def never() -> None: ...

    coro = never()
    with pytest.raises(ScopeClosed):
        root.spawn(coro, name="never")
    assert coro.cr_frame is None


async def test_a_task_that_swallows_its_cancellation_is_cancelled_again(root, clock):
    cancels = 0

    async def stubborn() -> None:
        nonlocal cancels
        while cancels < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancels += 1

    root.spawn(stubborn(), name="stubborn", grace_s=1)
    await settle()
    closing = task(root.close())
    await settle()
    clock.advance(1)
    report = await closing
    assert cancels == 2
    assert [failure.outcome for failure in report.failures] == ["killed"]


async def test_the_end_of_a_task_is_awaited(root, log):
    gate = Gate()
    own(root, log, "below")

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await gate.park()
            log.append("cleaned")

    root.spawn(work(), name="work")
    await settle()
    closing = task(root.close())
    await gate.wait_parked()
    assert log == []
    gate.release()
    await closing
    assert log == ["cleaned", "below"]


# --- borrowing and moving -----------------------------------------------------------------------------


async def test_release_waits_for_the_last_borrower(root, log):
    own(root, log, "below")
    (lease,) = own(root, log, "a")
    with lease as value:
        assert value == "a"
        with lease:
            closing = task(root.close())
            await settle()
            assert log == []
            with pytest.raises(LeaseClosed):
                lease.__enter__()
        await settle()
        assert log == []
    await closing
    assert log == ["a", "below"]


async def test_a_borrower_that_never_gives_back_is_bounded_and_reported(root, log, clock):
    own(root, log, "below")
    lease = root.own("thing", "a", log.release, grace_s=2)
    lease.__enter__()
    closing = task(root.close())
    await settle()
    clock.advance(2)
    await settle()
    assert closing.done()
    report = await closing
    assert [(f.outcome, f.error) for f in report.failures] == [("leaked", "still borrowed")]
    assert log == ["below"]
    lease.__exit__(None, None, None)
    assert log == ["below", "a"]
    assert root.census() == []


async def test_a_move_is_all_or_nothing(root, log):
    turn, session = root.child("turn"), root.child("session")
    moved, stays = own(turn, log, "moved", "stays")
    moved.move_to(session)
    assert labels(turn) == ["stays"]
    await turn.close()
    assert log == ["stays"]
    with pytest.raises(LeaseClosed):
        stays.move_to(session)
    session.claim("x")
    with pytest.raises(LeaseClosed):
        moved.move_to(root)
    await session.close()
    assert log == ["stays", "moved"]


async def test_a_move_to_a_closed_scope_leaves_it_where_it_was(root, log):
    turn, session = root.child("turn"), root.child("session")
    (lease,) = own(turn, log, "a")
    await session.close()
    with pytest.raises(ScopeClosed):
        lease.move_to(session)
    assert labels(turn) == ["a"]
    assert log == []


async def test_a_moved_lease_is_the_newest_acquisition(root, log):
    turn = root.child("turn")
    (lease,) = own(turn, log, "moved")
    own(root, log, "later")
    lease.move_to(root)
    keys = [entry.key for entry in root.census()]
    assert keys == sorted(keys)
    await root.close()
    assert log == ["moved", "later"]


async def test_the_value_of_a_released_lease_is_gone(root, log):
    (lease,) = own(root, log, "a")
    assert lease.value == "a"
    await lease.release()
    with pytest.raises(LeaseClosed):
        _ = lease.value
    assert root.census() == []


async def test_bookkeeping_is_cheap():
    """An idle session (scope, mailbox, parked task) stays far under its 16 KiB."""
    import tracemalloc

    from tenure.lifecycle.mailbox import Mailbox

    root = Scope.root("root", SystemClock())

    async def actor(mailbox: Mailbox[str]) -> None:
        await mailbox.get()

    def session() -> None:
        scope = root.child("session")
        scope.spawn(actor(Mailbox(scope)), name="actor")

    session()
    await settle()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(200):
        session()
    await settle()
    per_session = (tracemalloc.get_traced_memory()[0] - before) / 200
    tracemalloc.stop()
    await root.close()
    assert per_session < 4096


async def test_a_late_product_whose_release_never_ends_stays_in_the_census(root, clock):
    scope = root.child("session")
    await scope.close()
    gate = Gate()
    with pytest.raises(ScopeClosed):
        scope.own("thing", "late", lambda _: gate.park(), label="late")
    await gate.wait_parked()
    clock.advance(6.0)
    assert [(e.label, e.state) for e in root.census()] == [("late", "leaked")]
    gate.release()
    await settle()
    assert root.census() == []
