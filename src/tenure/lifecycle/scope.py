"""Scopes: who owns what, and in which order it ends.

A scope is a list of acquisitions. Closing it claims the whole subtree at one instant, then ends
its entries strictly in the reverse of the order in which they were acquired, one at a time; a child
scope is one entry of its parent, and a build in progress holds its place from its start. One driver
per scope does this; whoever else wants the scope closed waits for that driver's outcome.

Everything here is called on the loop thread. Nothing here is a task's own: tasks are entries too.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from tenure.clock import Clock
from tenure.errors import LifecycleError, ScopeClosed
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.disposer import Disposer
from tenure.lifecycle.entry import CensusEntry, CloseReport, Entry, Failure, ScopeState
from tenure.lifecycle.lease import Kill, Lease, Release
from tenure.lifecycle.threads import call_in_thread

T = TypeVar("T")
OnFailure = Callable[[Failure, BaseException | None], object]

FAILURES_MAX = 64
"""Failures kept for one report; a scope that lives for months must not grow with its mishaps."""

_OPEN, _CLOSING, _CLOSED = ScopeState.OPEN, ScopeState.CLOSING, ScopeState.CLOSED
log = logging.getLogger("tenure.lifecycle")


class _Tree:
    """What all scopes under one root share."""

    __slots__ = ("clock", "disposer", "keys")

    def __init__(self, name: str, clock: Clock) -> None:
        self.clock = clock
        self.keys = itertools.count(1)
        self.disposer = Disposer(f"{name}/disposer", clock)


class Scope(Entry):
    """An owner. Made by `Scope.root` or `child`.

    Attributes:
        name: its own part of the path.
        state: OPEN, CLOSING (claimed) or CLOSED. The only record of being closed.
        parent: the scope of which it is an entry; None at the root.
        reason: the first claim's reason, or None while OPEN.
        on_failure: called for every failed release or task of the subtree; without one on any
            scope above, failures are logged.
    """

    __slots__ = (
        "_driver", "_driving", "_entries", "_failures", "_report", "_tree", "name",
        "on_failure", "parent", "reason", "state",
    )  # fmt: skip

    def __init__(self, name: str, parent: Scope | None, tree: _Tree) -> None:
        self.key = next(tree.keys)
        self._waiters = None
        self.name = name
        self.state = _OPEN
        self.reason: str | None = None
        self.on_failure: OnFailure | None = None
        self.parent = parent
        self._tree = tree
        self._entries: dict[int, Scope | Lease[Any]] = {}
        self._failures: list[Failure] | None = None
        self._driving = False
        self._driver: asyncio.Task[None] | None = None
        self._report: CloseReport | None = None

    @classmethod
    def root(cls, name: str, clock: Clock) -> Scope:
        """A new tree. Its owner must close it."""
        return cls(name, None, _Tree(name, clock))

    def __repr__(self) -> str:
        return f"<Scope {self.path} {self.state.value} {len(self._entries)}>"

    @property
    def path(self) -> str:
        """The names from the root down, joined by slashes."""
        return self.name if self.parent is None else f"{self.parent.path}/{self.name}"

    @property
    def clock(self) -> Clock:
        """The tree's clock."""
        return self._tree.clock

    @property
    def disposer(self) -> Disposer:
        """The tree's disposer."""
        return self._tree.disposer

    @property
    def admits(self) -> bool:
        """Whether it is OPEN."""
        return self.state is _OPEN

    # --- acquiring ------------------------------------------------------------------------------

    def child(self, name: str) -> Scope:
        """A sub-scope, which is one entry of this one.

        Raises:
            ScopeClosed: this scope is not OPEN.
        """
        if self.state is not _OPEN:
            raise self._closed(f"scope {name}")
        child = Scope(name, self, self._tree)
        self._entries[child.key] = child
        return child

    def own(  # noqa: PLR0913 - the brief record of an acquisition
        self,
        kind: str,
        value: T,
        release: Release[T],
        *,
        kill: Kill[T] | None = None,
        grace_s: float = 5.0,
        label: str = "",
        pid: int | None = None,
    ) -> Lease[T]:
        """Adopt `value`, synchronously: from here on it ends with this scope at the latest.

        Args:
            kind: what it is, for the census.
            value: the thing.
            release: frees it; may return an awaitable. Called once. Never cancelled.
            kill: called when `release` is not over after `grace_s`; must not block.
            grace_s: seconds, from the moment the release is due.
            label: which one, for people.
            pid: the process behind it, if any.

        Raises:
            ScopeClosed: too late; the value is already being released by the disposer.
        """
        tree = self._tree
        if self.state is not _OPEN:
            late = Lease(tree.disposer, next(tree.keys), kind, release, kill, grace_s, label)
            tree.disposer.adopt(late)
            late.pid = pid
            late.hold(value)
            late.release_nowait()
            raise self._closed(f"{kind} {label}".strip())
        lease = Lease(self, next(tree.keys), kind, release, kill, grace_s, label)
        lease.pid = pid
        lease.hold(value)
        self._entries[lease.key] = lease
        return lease

    def reserve(
        self,
        kind: str,
        start: Callable[[], Awaitable[T]],
        release: Release[T],
        *,
        kill: Kill[T] | None = None,
        grace_s: float = 5.0,
        label: str = "",
    ) -> Lease[T]:
        """Begin a build and return its lease, still BUILDING; `Lease.ready` waits for it.

        For those who wait with several at once (`Shared`); everybody else uses `build`. Arguments
        and errors as there.
        """
        if self.state is not _OPEN:
            raise self._closed(f"{kind} {label}".strip())
        lease = Lease(self, next(self._tree.keys), kind, release, kill, grace_s, label)
        self._entries[lease.key] = lease
        lease.begin_build(start)
        return lease

    async def build(
        self,
        kind: str,
        start: Callable[[], Awaitable[T]],
        release: Release[T],
        *,
        kill: Kill[T] | None = None,
        grace_s: float = 5.0,
        label: str = "",
    ) -> Lease[T]:
        """Acquire something that takes time and must not be interrupted half-way.

        It holds its place in the order from the start: a close waits for `start` to end (bound it
        with `deadline` inside), then releases the product in that place. Cancelling the caller
        does not cancel `start`; the product is then released as soon as it is there.

        Raises:
            ScopeClosed: the scope is closed, or was claimed before the product could be handed out.
            Exception: what `start` raised; nothing is held then.
        """
        lease = self.reserve(kind, start, release, kill=kill, grace_s=grace_s, label=label)
        try:
            await lease.ready()
        except asyncio.CancelledError:
            lease.abandon()
            raise
        return lease

    async def build_in_thread(
        self,
        kind: str,
        start: Callable[[], T],
        release: Release[T],
        *,
        kill: Kill[T] | None = None,
        grace_s: float = 5.0,
        label: str = "",
    ) -> Lease[T]:
        """Like `build`, for a blocking `start`, which runs in a thread of its own."""

        async def start_in_thread() -> T:
            return await call_in_thread(start)

        return await self.build(
            kind, start_in_thread, release, kill=kill, grace_s=grace_s, label=label
        )

    def spawn(
        self, coro: Coroutine[Any, Any, T], *, name: str, grace_s: float = 5.0
    ) -> Lease[asyncio.Task[T]]:
        """Run `coro` as a task that ends with this scope: released by cancelling it and waiting.

        A finished task leaves the tree by itself; its exception, if any, goes to `on_failure`.
        After `grace_s` seconds it is cancelled a second time.

        Raises:
            ScopeClosed: the scope is closed; `coro` has been closed without a step.
        """
        if self.state is not _OPEN:
            coro.close()
            raise self._closed(f"task {name}")
        task = asyncio.get_running_loop().create_task(coro, name=name)
        lease: Lease[asyncio.Task[T]] = Lease(
            self, next(self._tree.keys), "task", _cancel, _cancel, grace_s, name
        )
        lease.hold_task(task)
        self._entries[lease.key] = lease
        return lease

    def take_over(self, lease: Lease[Any]) -> None:
        """Become the owner of a held lease. For `Lease.move_to`.

        Raises:
            ScopeClosed, LifecycleError: see there.
        """
        if self.state is not _OPEN:
            raise self._closed(f"{lease.kind} {lease.label}".strip())
        if lease.owner.disposer is not self._tree.disposer:
            raise LifecycleError(f"A lease cannot move to {self.path}: that is another tree.")
        lease.owner.forget(lease)
        lease.key = next(self._tree.keys)  # its place is that of the newest acquisition
        lease.set_owner(self)
        self._entries[lease.key] = lease

    # --- ending ---------------------------------------------------------------------------------

    def claim(self, reason: str) -> bool:
        """Stop admitting, here and in every scope below, at this instant.

        Releases nothing; `close` does, and so does the closing of a scope above.

        Returns:
            True for the first claim, whose reason stands; False for every later one.
        """
        if self.state is not _OPEN:
            return False
        self.state = _CLOSING
        self.reason = reason
        for entry in self._entries.values():
            if type(entry) is Scope:
                entry.claim(reason)
        return True

    async def close(
        self, reason: str = "closed", *, patience_s: float | None = None
    ) -> CloseReport:
        """Claim, release everything in reverse, and wait for the end of it.

        Idempotent, from any task; everyone gets the one report. Cancelling a waiter, or its running
        out of patience, stops the waiting only.

        Args:
            reason: kept if this is the first claim.
            patience_s: how many seconds this caller waits; None for as long as it takes.

        Raises:
            TimeoutError: the patience is over; the closing goes on.
        """
        self.claim(reason)
        self._begin_closing()
        async with deadline(self.clock, patience_s):
            return await self.wait_closed()

    async def wait_closed(self) -> CloseReport:
        """Wait until somebody has closed it. Cancelling the waiter changes nothing."""
        while self._report is None:
            await self.changed()
        return self._report

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close("done" if exc is None else f"left by {type(exc).__name__}")

    def end(self) -> asyncio.Future[None] | None:
        """Close it as an entry of its parent; see `Entry.end`. Joins a closing that has begun."""
        self.claim("closed")
        self._begin_closing()
        return None if self.state is _CLOSED else self.changed()

    def _begin_closing(self) -> None:
        if self._driving:  # one driver, whoever else asks
            return
        self._driving = True
        # Nothing is admitted after the claim, so this is everything; what has ended by itself when
        # its turn comes is simply over.
        rest = iter(list(reversed(self._entries.values())))
        stuck = _end_each(rest)
        if stuck is None and self._disposed() is None:
            self._finish()
            return
        self._driver = asyncio.get_running_loop().create_task(
            self._drive(stuck, rest), name=f"close {self.name}"
        )

    async def _drive(
        self,
        stuck: tuple[Entry, asyncio.Future[None]] | None,
        rest: Iterator[Entry],
    ) -> None:
        """Go on with the closing from the first entry that could not end at once."""
        while stuck is not None:
            entry, wait = stuck
            again: asyncio.Future[None] | None = wait
            while again is not None:
                await _wait_uncancelled(again)
                again = entry.end()
            stuck = _end_each(rest)
        while (late := self._disposed()) is not None:
            await _wait_uncancelled(late)
        self._finish()

    def _disposed(self) -> asyncio.Future[None] | None:
        """The root also waits for late products; see `Disposer.end`."""
        return self._tree.disposer.end() if self.parent is None else None

    def _finish(self) -> None:
        self.state = _CLOSED
        failures = tuple(self._failures or ())
        self._report = CloseReport(self.path, self.reason or "", failures)
        self._driver = None
        parent = self.parent
        if parent is not None:
            parent.forget(self)
            if failures and parent.state is not _OPEN:
                parent.keep(failures)
        self.wake()

    # --- bookkeeping ------------------------------------------------------------------------------

    def forget(self, entry: Entry) -> None:
        """Drop an entry that is over, or moved. For this package."""
        self._entries.pop(entry.key, None)

    def keep(self, failures: tuple[Failure, ...]) -> None:
        """Keep `failures` for the report. For this package."""
        mine = self._failures or []
        self._failures = (mine + list(failures))[-FAILURES_MAX:]

    def record(self, failure: Failure, error: BaseException | None) -> None:
        """Keep a failure for the report and tell the nearest listener. For this package."""
        self.keep((failure,))
        scope: Scope | None = self
        while scope is not None and scope.on_failure is None:
            scope = scope.parent
        if scope is None or scope.on_failure is None:
            self._tree.disposer.record(failure, error)
            return
        try:
            scope.on_failure(failure, error)
        except Exception:
            log.exception("The failure listener of %s failed itself", scope.path)

    def census(self) -> list[CensusEntry]:
        """Everything that this subtree holds, oldest first; at the root also the disposer's."""
        found: list[CensusEntry] = []
        for entry in self._entries.values():
            if isinstance(entry, Lease):
                found.append(entry.census_entry())
            else:
                found.extend(entry.census())
        if self.parent is None:
            found.extend(self._tree.disposer.census())
        return found

    def _closed(self, what: str) -> ScopeClosed:
        why = f" ({self.reason})" if self.reason else ""
        return ScopeClosed(f"{self.path} is {self.state.value}{why} and cannot take {what} now.")


def _end_each(rest: Iterator[Entry]) -> tuple[Entry, asyncio.Future[None]] | None:
    """End entries in turn, up to the first that takes time; that one and what to wait for."""
    for entry in rest:
        wait = entry.end()
        if wait is not None:
            return entry, wait
    return None


async def _wait_uncancelled(wait: asyncio.Future[None]) -> None:
    try:
        await wait
    except asyncio.CancelledError:
        # A closing never stops. Nobody has this task to cancel it but the loop's own shutdown,
        # which then waits for it; the driver asks again.
        return


def _cancel(task: asyncio.Task[Any]) -> asyncio.Task[Any]:
    task.cancel()
    return task
