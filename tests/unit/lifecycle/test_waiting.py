"""Deadlines, threads, imports off the loop, and the census as text."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import gc
import subprocess
import sys
import threading

import pytest

from tenure.clock import SystemClock
from tenure.errors import LifecycleError, ScopeClosed
from tenure.lifecycle import imports
from tenure.lifecycle.census import count_by_kind, tree_lines
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.imports import import_off_loop
from tenure.lifecycle.threads import call_in_thread, run_in_thread
from tenure.testing.clock import ManualClock, settle
from tenure.testing.gates import Gate, ThreadGate


def task(coro):
    return asyncio.get_running_loop().create_task(coro)


async def threads_over(word: str) -> None:
    """Wait until the threads named so have ended, and what they have told has arrived."""
    for thread in threading.enumerate():
        if word in thread.name:
            await call_in_thread(thread.join)
    await settle()


# --- deadline -------------------------------------------------------------------------------------


async def test_a_deadline_raises_on_the_clock(clock):
    async def wait() -> str:
        async with deadline(clock, 5):
            await asyncio.Event().wait()
        return "unreachable"

    waiting = task(wait())
    await settle()
    clock.advance(4.9)
    await settle()
    assert not waiting.done()
    clock.advance(0.1)
    with pytest.raises(TimeoutError, match="5 s"):
        await waiting


async def test_in_time_and_without_a_deadline(clock):
    async with deadline(clock, 5):
        await asyncio.sleep(0)
    async with deadline(clock, None):
        await asyncio.sleep(0)
    assert clock.pending == 0


async def test_a_deadline_does_not_swallow_a_cancellation(clock):
    """Both in the same step: the outer cancellation must win."""

    async def wait() -> None:
        async with deadline(clock, 5):
            await asyncio.Event().wait()

    waiting = task(wait())
    await settle()
    waiting.cancel()
    clock.advance(5)
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_cancellation_before_the_deadline_is_none_of_its_business(clock):
    async def wait() -> None:
        async with deadline(clock, 5):
            await asyncio.Event().wait()

    waiting = task(wait())
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert clock.pending == 0


async def test_a_deadline_counts_its_own_cancel_alone(clock):
    """It takes back what it asked for, and nothing from before its block."""
    left: list[int] = []

    async def wait() -> None:
        me = asyncio.current_task()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        for _ in range(2):
            with pytest.raises(TimeoutError):
                async with deadline(clock, 5):
                    await asyncio.Event().wait()
            left.append(me.cancelling())

    waiting = task(wait())
    await settle()
    waiting.cancel()
    for _ in range(2):
        await settle()
        clock.advance(5)
    await waiting
    assert left == [1, 1]


async def test_an_error_at_the_deadline_is_told_as_it_is(clock):
    async def wait() -> None:
        async with deadline(clock, 5):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise KeyError from None

    waiting = task(wait())
    await settle()
    clock.advance(5)
    with pytest.raises(KeyError):
        await waiting


async def test_nested_deadlines_each_catch_their_own(clock):
    async def wait() -> str:
        try:
            async with deadline(clock, 9):
                async with deadline(clock, 5):
                    await asyncio.Event().wait()
        except TimeoutError as exc:
            return str(exc)
        return "none"

    waiting = task(wait())
    await settle()
    clock.advance(5)
    assert "5 s" in await waiting


# --- threads ----------------------------------------------------------------------------------------


async def test_run_in_thread_gives_its_result_and_leaves_the_tree(root):
    assert await run_in_thread(
        root, lambda a, b: (a + b, threading.current_thread().daemon), 1, 2
    ) == (3, True)
    assert root.census() == []
    failing = task(run_in_thread(root, lambda: 1 / 0))
    await settle()
    await threads_over("lambda")
    assert failing.done()
    with pytest.raises(ZeroDivisionError):
        await failing
    assert root.census() == []


async def test_a_thread_is_given_what_it_is_to_do_and_stands_in_the_census_by_name(root):
    gate = ThreadGate()

    def take(one: int, *, two: int) -> tuple[int, int]:
        gate.park()
        return one, two

    taking = task(run_in_thread(root, take, 1, two=2))
    await gate.wait_parked()
    (entry,) = root.census()
    assert (entry.kind, entry.label) == ("thread", take.__qualname__)
    gate.release()
    assert await taking == (1, 2)


async def test_a_close_waits_for_a_running_thread(root):
    gate = ThreadGate()
    scope = root.child("s")
    running = task(run_in_thread(scope, gate.park))
    await gate.wait_parked()
    closing = task(scope.close())
    await settle()
    assert not closing.done()
    gate.release()
    await closing
    assert await running is None
    with pytest.raises(ScopeClosed):
        await run_in_thread(scope, gate.park)


async def test_a_cancelled_caller_leaves_the_thread_to_the_scope(root):
    gate = ThreadGate()
    running = task(run_in_thread(root, gate.park))
    await gate.wait_parked()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [entry.kind for entry in root.census()] == ["thread"]
    gate.release()
    await root.close()


async def test_a_stop_iteration_of_a_thread_becomes_an_error(root):
    stopping = task(run_in_thread(root, lambda: next(iter(()))))
    await settle()
    await threads_over("lambda")
    assert stopping.done()
    with pytest.raises(LifecycleError):
        await stopping


async def test_a_result_that_nobody_takes_any_more_is_dropped():
    faults = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    gate = ThreadGate()
    future = call_in_thread(gate.park)
    await gate.wait_parked()
    future.cancel()
    gate.release()
    await threads_over("park")
    assert faults == []


def test_a_thread_outlives_its_loop_in_silence(monkeypatch):
    faults = []
    monkeypatch.setattr(threading, "excepthook", faults.append)
    goes_on = threading.Event()

    async def leave() -> None:
        call_in_thread(goes_on.wait)

    before = set(threading.enumerate())
    asyncio.run(leave())
    (left,) = set(threading.enumerate()) - before
    goes_on.set()
    left.join()
    assert faults == []


async def test_a_gate_that_is_never_reached_or_released_fails_the_test():
    gate = Gate()
    parked = task(gate.park())
    await gate.wait_parked()
    assert (gate.parked, gate.passed) == (1, 0)
    gate.release()
    await parked
    assert (gate.parked, gate.passed) == (0, 1)


# --- imports -----------------------------------------------------------------------------------------


async def test_import_off_loop(tmp_path, monkeypatch):
    (tmp_path / "heavy_for_test.py").write_text(
        "import gc, sys, threading\nseen = gc.isenabled(), sys.getswitchinterval(), threading.current_thread().name\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    before = sys.getswitchinterval(), gc.get_freeze_count()
    module = await import_off_loop("heavy_for_test")
    enabled, interval, thread = module.seen
    assert not enabled
    assert interval == pytest.approx(0.0005)
    assert thread != "MainThread"
    assert gc.isenabled()
    assert sys.getswitchinterval() == pytest.approx(before[0])
    assert gc.get_freeze_count() > before[1]
    assert await import_off_loop("heavy_for_test") is module
    gc.unfreeze()
    del sys.modules["heavy_for_test"]


@pytest.fixture
def slow_import(tmp_path, monkeypatch):
    """Modules that end when told: a name and its gate."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def make(name: str) -> ThreadGate:
        gate = ThreadGate()
        monkeypatch.setattr(builtins, f"gate_of_{name}", gate, raising=False)
        (tmp_path / f"{name}.py").write_text(f"import builtins\nbuiltins.gate_of_{name}.park()\n")
        names.append(name)
        return gate

    yield make
    for name in names:
        sys.modules.pop(name, None)
    gc.unfreeze()


async def test_imports_that_overlap_stay_quiet_until_the_last(slow_import):
    interval = sys.getswitchinterval()
    gates = [slow_import("slow_one"), slow_import("slow_two")]
    one = task(import_off_loop("slow_one"))
    await gates[0].wait_parked()
    two = task(import_off_loop("slow_two"))
    await gates[1].wait_parked()
    gates[0].release()
    await one
    assert not gc.isenabled(), "the second goes on"
    gates[1].release()
    await two
    assert gc.isenabled()
    assert sys.getswitchinterval() == pytest.approx(interval)


async def test_an_import_leaves_a_collector_off_that_was_off(slow_import):
    slow_import("slow").release()
    gc.disable()
    try:
        await import_off_loop("slow")
        assert not gc.isenabled()
    finally:
        gc.enable()


async def test_an_import_that_nobody_waits_for_stays_quiet_to_its_end(slow_import):
    gate = slow_import("slow")
    importing = task(import_off_loop("slow"))
    await gate.wait_parked()
    importing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await importing
    assert not gc.isenabled()
    gate.release()
    await threads_over("_import")
    assert gc.isenabled()


async def test_a_module_that_is_half_imported_is_waited_for(slow_import):
    gate = slow_import("slow")
    first = task(import_off_loop("slow"))
    await gate.wait_parked()
    second = task(import_off_loop("slow"))
    await settle()
    assert not second.done()
    gate.release()
    assert await first is await second


async def test_what_a_package_imports_late_is_imported_with_it(slow_import, monkeypatch):
    slow_import("slow_package").release()
    slow_import("slow_part").release()
    monkeypatch.setitem(imports._LATE, "slow_package", ("slow_part",))
    await import_off_loop("slow_package")
    assert "slow_part" in sys.modules


async def test_a_failing_import_restores_everything():
    with pytest.raises(ModuleNotFoundError):
        await import_off_loop("no_such_module_at_all")
    await settle()
    assert gc.isenabled()
    assert sys.getswitchinterval() > 0.001
    gc.unfreeze()


async def test_what_is_imported_is_there_at_once():
    with pytest.raises(StopIteration) as done:
        import_off_loop("json").send(None)
    assert done.value.value is sys.modules["json"]


# --- census ------------------------------------------------------------------------------------------


async def test_the_census_as_a_tree(root, clock):
    session = root.child("session:a")
    session.own("process", 1, lambda _: None, label="sh", pid=42)
    session.child("turn:1").own("http client", 1, lambda _: None)
    root.own("store", 1, lambda _: None)
    clock.advance(2)
    assert tree_lines(root.census()) == [
        "root",
        "  store 2.0 s",
        "  session:a",
        "    process sh pid 42 2.0 s",
        "    turn:1",
        "      http client 2.0 s",
    ]
    assert count_by_kind(root.census()) == {"http client": 1, "process": 1, "store": 1}


async def test_the_census_says_what_is_not_simply_held(root):
    gate = Gate()
    ending = root.own("store", 1, lambda _: gate.park())
    ending.release_nowait()
    assert tree_lines(root.census()) == ["root", "  store releasing 0.0 s"]
    await gate.wait_parked()
    gate.release()


# --- clocks: one contract -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SystemClock, ManualClock])
async def test_clock_contract(kind):
    clock = kind()
    fired: list[str] = []
    start, wall = clock.monotonic(), clock.wall()
    clock.call_later(0.002, lambda: fired.append("second"))
    clock.call_later(0.001, lambda: fired.append("first"))
    clock.call_later(0.001, lambda: fired.append("never")).cancel()
    sleeping = task(clock.sleep(0.003))
    await clock.sleep(0)
    while not sleeping.done():
        await asyncio.sleep(0)
        if isinstance(clock, ManualClock):
            clock.advance(0.001)
    assert fired == ["first", "second"]
    assert clock.monotonic() - start >= 0.003
    assert clock.wall() - wall >= 0.002
    waiting = task(clock.sleep(1000))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_suspension_moves_the_wall_clock_alone(clock):
    before = clock.monotonic(), clock.wall()
    clock.suspend(3600)
    assert (clock.monotonic(), clock.wall()) == (before[0], before[1] + 3600)


_A_REQUEST = """
import asyncio, socket, ssl, sys
from tenure.lifecycle.imports import import_off_loop

async def main():
    httpx = await import_off_loop("httpx")
    verify = ssl.create_default_context()
    before = set(sys.modules)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    async with httpx.AsyncClient(trust_env=False, verify=verify) as client:
        try:
            await client.get(f"http://127.0.0.1:{port}/")
        except httpx.ConnectError:
            print("late:", sorted(set(sys.modules) - before))
    print("unused:", sorted({"rich", "pygments", "click"} & set(sys.modules)))

asyncio.run(main())
"""


def test_a_first_request_imports_nothing_on_the_loop_and_no_command_line():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _A_REQUEST],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("late: []\nunused: []\n", "")
