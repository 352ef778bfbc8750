"""Things that several owners use at once: a database handle, an HTTP pool, a tool server.

The thing lives in a longer scope and is reached through counted borrowings. A borrower holds no
lease of the thing, so it cannot end it; giving back the last borrowing does, after `idle_s`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from tenure.clock import TimerHandle
from tenure.lifecycle.entry import LeaseState
from tenure.lifecycle.lease import Lease, Release
from tenure.lifecycle.scope import Scope

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class _Slot(Generic[K, T]):
    """One key's present thing. `users` counts from lookup on: finding and pinning are one step."""

    __slots__ = ("idle", "key", "lease", "users")

    def __init__(self, key: K, lease: Lease[T]) -> None:
        self.key = key
        self.lease = lease
        self.users = 0
        self.idle: TimerHandle | None = None

    @property
    def usable(self) -> bool:
        return not self.lease.ending


class Shared(Generic[K, T]):
    """Keyed things of one kind.

    Args:
        scope: where they live; it must outlast every scope that borrows.
        kind: for the census.
        build: makes the thing for a key; at most one runs per key.
        release: frees it.
        idle_s: seconds to keep a thing that nobody borrows.
        grace_s: seconds its release may take, waiting for borrowers included.
    """

    def __init__(
        self,
        scope: Scope,
        kind: str,
        *,
        build: Callable[[K], Awaitable[T]],
        release: Release[T],
        idle_s: float = 0.0,
        grace_s: float = 5.0,
    ) -> None:
        self._scope = scope
        self._kind = kind
        self._build = build
        self._release = release
        self._idle_s = idle_s
        self._grace_s = grace_s
        self._slots: dict[K, _Slot[K, T]] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, key: object) -> bool:
        return key in self._slots

    async def borrow(self, key: K, into: Scope) -> T:
        """The thing for `key`, built if it is not there.

        The borrowing is owned by `into` and given back when that closes. When an earlier thing of
        this key is still being released, that is waited for: old and new never coexist. Cancelling
        one borrower leaves the build to the others.

        Raises:
            ScopeClosed: `into`, or the scope of the shared things, admits nothing.
            Exception: what `build` raised, to everyone who waited for it; the next one tries again.
        """
        slot = await self._pin(key)
        try:
            await slot.lease.ready()
            slot.lease.__enter__()  # the release now waits for us
        except BaseException:
            self._unpin(slot)
            raise
        value = slot.lease.value
        into.own(f"borrowed {self._kind}", slot, self._give_back, label=str(key))
        return value

    async def discard(self, key: K) -> None:
        """Stop handing out the present thing of `key` (it has died); the next borrower builds anew.

        It is released when its last borrower has given it back, or its grace is over.
        """
        slot = self._slots.get(key)
        if slot is not None:
            await slot.lease.release()

    async def end_idle(self) -> None:
        """End now what nobody borrows, instead of after its idle time; waits for the releases."""
        idle = [slot for slot in self._slots.values() if slot.users == 0 and slot.usable]
        for slot in idle:
            if slot.idle is not None:
                slot.idle.cancel()
            self._end(slot)
        for slot in idle:
            while slot.lease.state not in {LeaseState.RELEASED, LeaseState.LEAKED}:
                await slot.lease.changed()
            self._drop(slot)

    async def _pin(self, key: K) -> _Slot[K, T]:
        while (slot := self._slots.get(key)) is not None and not slot.usable:
            await slot.lease.release()  # joins the release that runs
            self._drop(slot)
        if slot is None:
            lease = self._scope.reserve(
                self._kind,
                lambda: self._build(key),
                self._release,
                grace_s=self._grace_s,
                label=str(key),
            )
            slot = self._slots[key] = _Slot(key, lease)
            self._drop_when_over(slot)  # also when the scope ends it
        slot.users += 1
        if slot.idle is not None:
            slot.idle.cancel()
            slot.idle = None
        return slot

    def _give_back(self, slot: _Slot[K, T]) -> None:
        slot.lease.__exit__(None, None, None)
        self._unpin(slot)

    def _unpin(self, slot: _Slot[K, T]) -> None:
        slot.users -= 1
        if slot.users:
            return
        if slot.usable and self._idle_s > 0:
            slot.idle = self._scope.clock.call_later(self._idle_s, lambda: self._end(slot))
        else:
            self._end(slot)

    def _end(self, slot: _Slot[K, T]) -> None:
        slot.idle = None
        slot.lease.abandon()

    def _drop_when_over(self, slot: _Slot[K, T]) -> None:
        """A key keeps its place until the release is over: old and new never coexist."""
        if slot.lease.state in {LeaseState.RELEASED, LeaseState.LEAKED}:
            if slot.idle is not None:
                slot.idle.cancel()
                slot.idle = None
            self._drop(slot)
        else:
            slot.lease.changed().add_done_callback(lambda _: self._drop_when_over(slot))

    def _drop(self, slot: _Slot[K, T]) -> None:
        if self._slots.get(slot.key) is slot:
            del self._slots[slot.key]
