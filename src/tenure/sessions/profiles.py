"""Profiles: named parts of a home, each with its own database, keys, grants and defaults.

The default profile is the home itself and is open as long as the gateway. Every other one is opened
for its first borrower, once, and closed when nobody has borrowed it for `IDLE_S`. A session borrows
its profile for its whole life and beyond its scope: until its last write is stored. Whoever only
reads borrows for the length of a block. Which profile is an argument of every call and a fact of
every session; nothing here is ambient.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tenure.config import DEFAULT_PROFILE, Home
from tenure.errors import BadValue, Conflict, NotFound, Overloaded
from tenure.ids import checked_name
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.shared import Shared
from tenure.lifecycle.threads import call_in_thread
from tenure.sessions.resources import SessionPorts
from tenure.store.base import Store

IDLE_S = 30.0
"""How long a profile that nobody uses stays open."""
OPEN_MAX = 64
"""Profiles that are open at once; each holds a database with its threads and descriptors."""
CLOSE_GRACE_S = 15.0

Open = Callable[[str, Scope], Awaitable[SessionPorts]]


class _Opened:
    """An open profile: what its sessions are given, and the scope that holds it."""

    __slots__ = ("ports", "scope")

    def __init__(self, scope: Scope, ports: SessionPorts) -> None:
        self.scope = scope
        self.ports = ports


class Profiles:
    """The profiles of one gateway.

    Args:
        scope: where they are open; it must outlast the sessions.
        home: whose profiles they are.
        base: the ports of the default profile; the gateway owns what is in them.
        open_profile: opens one by name, below the scope that it is given.
        fallback: the profile of requests that name none.
    """

    def __init__(
        self,
        scope: Scope,
        home: Home,
        base: SessionPorts,
        open_profile: Open,
        *,
        fallback: str = DEFAULT_PROFILE,
    ) -> None:
        self.home = home
        self.base = base
        self._open_profile = open_profile
        self.fallback = fallback
        self._parts = scope.child("profiles")
        self.open: Shared[str, _Opened] = Shared(
            scope.child("open profiles"),
            "profile",
            build=self._build,
            release=_close,
            idle_s=IDLE_S,
            grace_s=CLOSE_GRACE_S,
        )
        self._borrowers = scope.child("profile users")  # younger, so it ends before what it borrows
        self._held: dict[str, dict[str, Scope]] = {}
        self._deleting: set[str] = set()

    # --- names --------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """The profiles that exist, the default one first."""
        try:
            found = sorted(p.name for p in self.home.profiles.iterdir() if self._exists(p.name))
        except FileNotFoundError:
            found = []
        return [DEFAULT_PROFILE, *found]

    def _exists(self, name: str) -> bool:
        try:
            folder = self.home.profile(name).root
        except BadValue:
            return False
        return folder.is_dir() and not folder.is_symlink()

    def name_of(self, asked: str) -> str:
        """The profile that a request means; the fallback where it names none.

        Raises:
            BadValue: that is no name.
            NotFound: there is no such profile.
        """
        name = asked or self.fallback
        if name == DEFAULT_PROFILE:  # which is always there
            return name
        checked_name(name, "profile")
        if not self._exists(name):
            raise NotFound(
                f"There is no profile {name!r}; `tenure profile create {name}` makes it."
            )
        if name in self._deleting:
            raise Conflict(f"The profile {name!r} is being deleted.")
        return name

    def live(self, name: str) -> int:
        """How many sessions of a profile are live; those of the default one are not counted."""
        return len(self._held.get(name, ()))

    # --- borrowing ----------------------------------------------------------------------------

    async def hold(self, asked: str, session_id: str, owner: Scope) -> SessionPorts:
        """What a session of a profile is given; borrowed until `let_go`.

        Ownership: the borrowing is owned by a scope below `owner`, the registry's: it ends with
        that at the latest, and outlasts the session's own scope.
        Cancellation: what was opened for this session alone is closed again.

        Raises:
            BadValue, NotFound, Conflict: see `name_of`.
            Overloaded: too many profiles are open.
            StoreError, ConfigError: the profile cannot be opened.
        """
        name = self.name_of(asked)
        if name == DEFAULT_PROFILE:
            return self.base
        scope = owner.child(f"profile of {session_id}")
        self._held.setdefault(name, {})[session_id] = scope
        try:
            return await self._borrow(name, scope)
        except BaseException:
            self.let_go(name, session_id)
            raise

    def let_go(self, name: str, session_id: str) -> None:
        """The session has stored its last write, or never came to be. Idempotent, never waits."""
        held = self._held.get(name, {})
        scope = held.pop(session_id, None)
        if not held:
            self._held.pop(name, None)
        if scope is not None:
            _ = scope.end()

    @asynccontextmanager
    async def using(self, asked: str) -> AsyncIterator[Store]:
        """The store of a profile, for a block; given back on every way out.

        Raises:
            As `hold`.
        """
        async with self.using_ports(asked) as ports:
            yield ports.store

    @asynccontextmanager
    async def using_ports(self, asked: str) -> AsyncIterator[SessionPorts]:
        """All that a profile's sessions are given, for a block; see `using`."""
        name = self.name_of(asked)
        if name == DEFAULT_PROFILE:
            yield self.base
            return
        async with self._borrowers.child(f"use {name}") as scope:
            yield await self._borrow(name, scope)

    async def _borrow(self, name: str, into: Scope) -> SessionPorts:
        if len(self.open) >= OPEN_MAX and name not in self.open:
            await self.open.end_idle()
        if len(self.open) >= OPEN_MAX and name not in self.open:
            raise Overloaded(
                f"{OPEN_MAX} profiles are open, which is the limit; close a session of one first."
            )
        return (await self.open.borrow(name, into)).ports

    async def _build(self, name: str) -> _Opened:
        self.name_of(name)  # it may have been deleted while we waited for an earlier opening
        scope = self._parts.child(name)
        try:
            return _Opened(scope, await self._open_profile(name, scope))
        except BaseException:
            await scope.close("not opened")
            raise

    # --- making and removing ------------------------------------------------------------------

    def create(self, name: str) -> Path:
        """Make an empty profile; its folder.

        Raises:
            BadValue: that is no name.
            Conflict: there is one already.
        """
        folder = self.home.profile(name).root
        if folder.exists():  # that of the default one is the home
            raise Conflict(f"There is a profile {name!r} already.")
        self.home.profiles.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        return folder

    async def delete(self, name: str) -> None:
        """Remove a profile with all that is in it, for good.

        Cancellation: the deletion goes on.

        Raises:
            BadValue: that is no name, or the default profile.
            NotFound: there is no such profile.
            Conflict: sessions of it are live, requests go to it, or it is being deleted.
        """
        self._check_deletable(name)
        self._deleting.add(name)
        task = self._borrowers.spawn(self._delete(name), name=f"delete profile {name}", grace_s=30)
        task.value.add_done_callback(lambda _: self._deleting.discard(name))
        await asyncio.shield(task.value)

    def _check_deletable(self, name: str) -> None:
        if self.name_of(name) == DEFAULT_PROFILE:
            raise BadValue("The default profile is the home itself and cannot be deleted.")
        if count := self.live(name):
            sessions = "1 session is" if count == 1 else f"{count} sessions are"
            raise Conflict(f"{sessions} live in the profile {name!r}; close what uses it first.")
        if name == self.fallback:
            raise Conflict(
                f"The profile {name!r} serves requests that name none; use another one first "
                "(`tenure profile use default`, then start the gateway again)."
            )

    async def _delete(self, name: str) -> None:
        await self.open.discard(name)
        folder = self.home.profile(name).root
        gone = folder.with_name(f".{name}.deleted")
        await call_in_thread(_remove, folder, gone)


def _remove(folder: Path, gone: Path) -> None:
    """In one rename it is no profile any more; what a crash leaves of it, the next one removes."""
    shutil.rmtree(gone, ignore_errors=True)
    folder.rename(gone)
    shutil.rmtree(gone)


async def _close(opened: _Opened) -> None:
    await opened.scope.close("nobody uses it")
