"""A lease: one owned thing, and the protocol by which it ends exactly once.

    BUILDING ──> HELD ──> RELEASING ──> RELEASED
                              │             ^
                              └──> LEAKED ──┘   (late, under the disposer)

Every transition is made synchronously on the loop thread. A release is never cancelled: when its
grace runs out `kill` is called, and when that does not end it either, the disposer takes it over.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from tenure.errors import LeaseClosed, LifecycleError, ScopeClosed
from tenure.lifecycle.entry import CensusEntry, Entry, Failure, LeaseState, Outcome, Owner

if TYPE_CHECKING:
    from tenure.clock import TimerHandle
    from tenure.lifecycle.scope import Scope

T = TypeVar("T")
Release = Callable[[T], Awaitable[object] | None]
Kill = Callable[[T], object]

KILL_GRACE_S = 2.0
"""How long a release may still take after kill(). SIGKILL acts in milliseconds; 2 s allow for a
machine that swaps."""

_BUILDING, _HELD = LeaseState.BUILDING, LeaseState.HELD
_RELEASING, _RELEASED, _LEAKED = LeaseState.RELEASING, LeaseState.RELEASED, LeaseState.LEAKED


class Lease(Entry, Generic[T]):
    """One owned thing. Made by a `Scope`, never directly.

    Attributes:
        kind: what it is ("process", "task", "http client", …).
        label: which one, for people.
        pid: the process behind it, if any.
        grace_s: seconds its release may take before kill() is called.
        born_s: when it was acquired (its build begun), on the clock's monotonic seconds.
    """

    __slots__ = (
        "_abandoned", "_borrowers", "_error", "_kill", "_owner", "_release", "_task", "_timer",
        "_value", "born_s", "grace_s", "kind", "label", "pid", "state",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913, PLR0917 - the record of an acquisition; only Scope calls it
        self,
        owner: Owner,
        key: int,
        kind: str,
        release: Release[T],
        kill: Kill[T] | None,
        grace_s: float,
        label: str,
    ) -> None:
        self.key = key
        self._waiters = None
        self._owner = owner
        self.kind = kind
        self.label = label
        self.pid: int | None = None
        self.grace_s = grace_s
        self.state = _BUILDING
        self.born_s = owner.clock.monotonic()
        self._value: T | None = None
        self._release: Release[T] | None = release
        self._kill = kill
        self._borrowers = 0
        self._abandoned = False
        self._error: BaseException | None = None
        self._task: asyncio.Future[Any] | None = None
        self._timer: TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Lease {self.key} {self.kind} {self.label!r} {self.state.value}>"

    # --- use --------------------------------------------------------------------------------

    @property
    def value(self) -> T:
        """The thing itself.

        Raises:
            LeaseClosed: it is not built yet, or gone.
        """
        if self.state is _BUILDING or self.state is _RELEASED:
            raise self._closed()
        return cast("T", self._value)

    def __enter__(self) -> T:
        """Borrow: the release waits until the block is left.

        Raises:
            LeaseClosed: the lease, or a scope above it, has been claimed.
        """
        if self.state is not _HELD or not self._owner.admits:
            raise self._closed()
        self._borrowers += 1
        return cast("T", self._value)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._borrowers -= 1
        if self._borrowers == 0 and self.state is not _HELD and self._release is not None:
            self._run_release()

    def move_to(self, scope: Scope) -> None:
        """Hand over to `scope`, as its newest acquisition. Synchronous, all or nothing.

        Raises:
            LeaseClosed: this lease, or the scope that holds it, has been claimed.
            ScopeClosed: `scope` admits nothing; the lease stays where it is.
            LifecycleError: `scope` belongs to another tree.
        """
        if self.state is not _HELD or not self._owner.admits:
            raise self._closed()
        scope.take_over(self)

    def release(self) -> Coroutine[Any, Any, None]:
        """End it before its scope ends. Claimed at the call, not at the first await; idempotent.

        The lease keeps its place until its release is over, so nothing below it is freed under
        it. How the release went is reported by the scope. Cancelling the waiter stops the waiting,
        never the release.
        """
        self.release_nowait()
        return self._wait_ended(self.end())

    def release_nowait(self) -> None:
        """Begin what `release` begins, without waiting for its end."""
        if self.state is _BUILDING:
            self._abandoned = True
        elif self.state is _HELD:
            self._begin_end()

    def abandon(self) -> None:
        """Nobody will take the product: release it, now or on arrival. For this package.

        Under a claim it keeps its place instead: the closing releases it when its turn comes.
        """
        if self.state is _BUILDING or self._owner.admits:
            self.release_nowait()

    @property
    def ending(self) -> bool:
        """Whether its end has been asked for, or is over."""
        return self._abandoned or (self.state is not _HELD and self.state is not _BUILDING)

    async def _wait_ended(self, wait: asyncio.Future[None] | None) -> None:
        while wait is not None:
            await wait
            wait = self.end()

    # --- building -----------------------------------------------------------------------------

    def begin_build(self, start: Callable[[], Awaitable[T]]) -> None:
        """Run `start` in a keeper task which no caller's cancellation reaches. For `Scope`."""
        self._task = asyncio.get_running_loop().create_task(self._build(start))

    async def _build(self, start: Callable[[], Awaitable[T]]) -> None:
        try:
            value = await start()
        except Exception as exc:  # noqa: BLE001 - whatever it is, it belongs to who waits in arrived()
            self._build_failed(exc)
        except asyncio.CancelledError:
            # Only the loop's own shutdown or start() itself cancels a keeper; to the waiter this
            # must not look like its own cancellation.
            self._build_failed(
                LifecycleError(f"Building {self._what()} was cancelled from inside.")
            )
        else:
            self.hold(value)
            self.wake()
            if self._abandoned:
                self.abandon()

    def hold(self, value: T) -> None:
        """The thing is there. For `Scope`."""
        self._value = value
        self._task = None
        self.state = _HELD

    def _build_failed(self, error: BaseException) -> None:
        waited_for = bool(self._waiters) and not self._abandoned
        self._error = error
        if not waited_for and self._owner.admits:
            self._owner.record(self._failure("failed", error), error)
        self._over()

    async def arrived(self) -> None:
        """Wait until the build is over, whatever has become of scope and product since.

        Raises:
            Exception: what `start` raised.
        """
        while self.state is _BUILDING:
            await self.changed()
        if self._error is not None:
            raise self._error

    async def ready(self) -> None:
        """Wait until the product is there and published.

        Raises:
            Exception: what `start` raised.
            ScopeClosed: the scope was claimed meanwhile; the product is released in its place.
        """
        await self.arrived()
        if self.state is not _HELD or not self._owner.admits:
            raise ScopeClosed(
                f"{self._what()} came too late: {self._owner.path} is closing, so it is released."
            )

    # --- tasks ----------------------------------------------------------------------------------

    def hold_task(self, task: asyncio.Task[Any]) -> None:
        """The thing is a task: it ends by itself or by being cancelled. For `Scope`."""
        self._value = cast("T", task)
        self.state = _HELD
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Future[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        # Whoever asks a claimed scope for more has met its end a moment before its own cancel.
        met_the_claim = isinstance(error, ScopeClosed) and not self._owner.admits
        if error is not None and not met_the_claim:
            self._owner.record(self._failure("failed", error), error)
        self._over()

    # --- ending -----------------------------------------------------------------------------------

    def end(self) -> asyncio.Future[None] | None:
        """Begin the release unless begun; see `Entry.end`."""
        if self.state is _HELD:
            self._begin_end()
        if self.state is _RELEASED or self.state is _LEAKED:
            return None
        return self.changed()

    def _begin_end(self) -> None:
        self.state = _RELEASING
        if self._borrowers == 0:
            self._run_release()
        if self.state is _RELEASING:
            self._timer = self._owner.clock.call_later(self.grace_s, self._overdue)

    def _run_release(self) -> None:
        release = self._release
        self._release = None  # once, whoever comes second
        assert release is not None
        try:
            pending = release(cast("T", self._value))
        except Exception as exc:  # noqa: BLE001 - a failing release must not stop the next one
            self._release_failed(exc)
            return
        if isinstance(pending, asyncio.Future):
            if pending is not self._value:  # a task lease already has its callback
                self._watch(pending)
        elif pending is not None and inspect.isawaitable(pending):
            self._watch(asyncio.get_running_loop().create_task(_wait(pending)))
        else:
            self._over()

    def _watch(self, pending: asyncio.Future[Any]) -> None:
        self._task = pending
        pending.add_done_callback(self._release_done)

    def _release_done(self, task: asyncio.Future[Any]) -> None:
        if task.cancelled():
            self._release_failed(LifecycleError("The release was cancelled from outside."))
        elif (error := task.exception()) is not None:
            self._release_failed(error)
        else:
            self._over()

    def _release_failed(self, error: BaseException) -> None:
        self._owner.record(self._failure("failed", error), error)
        self._over()

    def _overdue(self) -> None:
        """The grace is over: kill once, then leak. The release itself goes on either way."""
        self._timer = None
        kill, self._kill = self._kill, None
        if kill is None:
            self._leak()
            return
        error: BaseException | None = None
        try:
            kill(cast("T", self._value))
        except Exception as exc:  # noqa: BLE001 - a failing kill ends as LEAKED, which is reported
            error = exc
        self._owner.record(self._failure("killed", error), error)
        if self.state is _RELEASING:  # the kill may have ended it at once
            self._timer = self._owner.clock.call_later(KILL_GRACE_S, self._overdue)

    def _leak(self) -> None:
        self.state = _LEAKED
        owner = self._owner
        why = "still borrowed" if self._release is not None else "its release has not ended"
        owner.record(self._failure("leaked", why), None)
        self._owner = owner.disposer
        self._owner.adopt(self)  # a late product is there already: the root need not wait for it
        if owner is not self._owner:
            owner.forget(self)
        self.wake()

    def _over(self) -> None:
        self.state = _RELEASED
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._value = self._release = self._kill = self._task = None
        self._owner.forget(self)
        self.wake()

    # --- for Scope, Disposer and the census -----------------------------------------------------

    def set_owner(self, owner: Owner) -> None:
        """Point at the new owner after a move."""
        self._owner = owner

    @property
    def owner(self) -> Owner:
        """Who holds it now."""
        return self._owner

    @property
    def borrowers(self) -> int:
        """How many have borrowed it now."""
        return self._borrowers

    def census_entry(self) -> CensusEntry:
        """Itself as a line of the census."""
        owner = self._owner
        age_s = owner.clock.monotonic() - self.born_s
        return CensusEntry(
            self.key, self.kind, owner.path, self.label, self.state.value, age_s, self.pid
        )

    def _what(self) -> str:
        return f"{self.kind} {self.label}".strip()

    def _failure(self, outcome: Outcome, error: BaseException | str | None) -> Failure:
        text = repr(error) if isinstance(error, BaseException) else error or ""
        return Failure(self.kind, self.label, self._owner.path, outcome, text)

    def _closed(self) -> LeaseClosed:
        return LeaseClosed(
            f"{self._what()} of {self._owner.path} is {self.state.value}; it cannot be used now."
        )


async def _wait(pending: Awaitable[object]) -> None:
    await pending
