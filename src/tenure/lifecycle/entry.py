"""What leases and scopes have in common: a place in a scope, and being waited for."""

from __future__ import annotations

import asyncio
import enum
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

if TYPE_CHECKING:
    from tenure.clock import Clock
    from tenure.lifecycle.disposer import Disposer

Outcome = Literal["failed", "killed", "leaked"]


class ScopeState(enum.Enum):
    """OPEN admits; CLOSING admits nothing and releases; CLOSED holds nothing."""

    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


class LeaseState(enum.Enum):
    """A lease moves only forward through these; LEAKED may still end as RELEASED, late."""

    BUILDING = "building"
    HELD = "held"
    RELEASING = "releasing"
    RELEASED = "released"
    LEAKED = "leaked"


class Failure(msgspec.Struct, frozen=True):
    """A release that did not go well.

    `failed`: it raised. `killed`: its grace ran out and kill() was called. `leaked`: it was still
    not over after that, so it was handed to the disposer and the closing went on.
    """

    kind: str
    label: str
    owner: str
    """Path of the scope that held it."""
    outcome: Outcome
    error: str = ""


class CloseReport(msgspec.Struct, frozen=True):
    """How a scope ended. One per scope, the same object for everyone who waited."""

    path: str
    reason: str
    failures: tuple[Failure, ...] = ()
    """Of the whole subtree, at most `FAILURES_MAX` of them."""

    @property
    def clean(self) -> bool:
        """Whether every release went well."""
        return not self.failures


class CensusEntry(msgspec.Struct, frozen=True):
    """One thing that is held."""

    key: int
    """Unique in its tree, never reused, growing with the order of acquisition."""
    kind: str
    owner: str
    """Path of the owning scope, or the disposer's."""
    label: str
    state: str
    age_s: float
    pid: int | None = None


class Owner(Protocol):
    """What a lease needs from the scope (or the disposer) that holds it."""

    @property
    def path(self) -> str:
        """Where the owner stands in the tree."""

    @property
    def clock(self) -> Clock:
        """Time."""

    @property
    def disposer(self) -> Disposer:
        """Who takes over what cannot be released in time."""

    @property
    def admits(self) -> bool:
        """Whether new things, moves and borrowings are allowed now."""

    def forget(self, entry: Entry) -> None:
        """Drop a finished entry from its place."""

    def record(self, failure: Failure, error: BaseException | None) -> None:
        """Note a failure in the report and tell whoever listens."""


class Entry:
    """A place in a scope. Waiting for it never hands its inner futures to anyone.

    Attributes:
        key: from the tree's counter. Never `id()`: an address is reused once its object is gone,
            and a later entry would then overwrite a live one.
    """

    __slots__ = ("_waiters", "key")

    def __init__(self, key: int) -> None:
        self.key = key
        self._waiters: list[asyncio.Future[None]] | None = None

    def end(self) -> asyncio.Future[None] | None:
        """Begin to end, unless begun. For this package.

        Returns:
            None once it is over, else a future of the caller's own; await it, then ask again.
        """
        raise NotImplementedError

    def changed(self) -> asyncio.Future[None]:
        """A future of the caller's own which ends at the next change of state.

        One per waiter: cancelling a waiter cancels its future, and nothing else.
        """
        future = asyncio.get_running_loop().create_future()
        if self._waiters is None:
            self._waiters = [future]
        else:
            self._waiters = [old for old in self._waiters if not old.done()]
            self._waiters.append(future)
        return future

    def wake(self) -> None:
        """Tell every waiter that the state has changed."""
        waiters, self._waiters = self._waiters, None
        for future in waiters or ():
            if not future.done():
                future.set_result(None)
