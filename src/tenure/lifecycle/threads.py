"""Blocking work, each piece in a thread of its own.

No pool: a pool lets one stuck call take a place from all others, and keeps idle threads. A thread
costs about 60 us, which blocking work is never worth less than. The threads are daemons, so a stuck
one cannot keep the process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from tenure.errors import LifecycleError

if TYPE_CHECKING:
    from tenure.lifecycle.scope import Scope

P = ParamSpec("P")
T = TypeVar("T")


def call_in_thread(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
    """Start ``fn(*args)`` in a thread; a future of its result.

    Unowned: for use inside a build or a release, whose lease owns the wait. Elsewhere use
    `run_in_thread`. Cancelling the future does not stop the thread; its result is dropped.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type]  # None only where T is
        else:
            future.set_exception(error)

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = fn(*args, **kwargs)
        except StopIteration as exc:
            error = LifecycleError(f"A thread's function let {exc!r} out.")
        except BaseException as exc:  # noqa: BLE001 - delivered to who waits, not swallowed
            error = exc
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            return  # the loop is closed: nobody is left to take the result

    name = f"tenure {getattr(fn, '__qualname__', 'call')}"
    threading.Thread(target=run, name=name, daemon=True).start()
    return future


async def run_in_thread(scope: Scope, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run short blocking work; the running thread is an entry of `scope`.

    Cancelling the caller stops the waiting, not the thread; a close of `scope` waits for the
    thread. The result is a plain value and is delivered even if the scope was claimed meanwhile.

    Raises:
        ScopeClosed: `scope` is closed; nothing was started.
        Exception: what `fn` raised.
    """
    result: list[T] = []  # ours: the lease may be released before we are woken

    async def start() -> None:
        result.append(await call_in_thread(fn, *args, **kwargs))

    lease = scope.reserve("thread", start, _nothing, label=getattr(fn, "__qualname__", ""))
    try:
        await lease.arrived()
    finally:
        lease.abandon()
    return result[0]


def _nothing(_value: None) -> None:
    """A plain result needs no release."""
