"""What must hold: after every step, and when everything has come to rest.

    V1   whatever is acquired has an owner in the census; nothing is acquired after a claim
    V2   releases come in the reverse order of the acquisitions, each once
    V3   what is borrowed is not released under its borrower
    V4   a close ends; nobody is left waiting
The ones about sessions stand in `proof/session_oracles.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

from proof.loop import ExploringLoop, Violation
from tenure.lifecycle.entry import LeaseState
from tenure.lifecycle.scope import Scope

THING = "thing"
_HOLDS = {LeaseState.HELD.value}


def require(holds: object, told: str) -> None:
    """A promise; `told` says what has become of it."""
    if not holds:
        raise Violation(told)


def planned(error: Exception) -> Exception:
    """An error that is not ours to find."""
    error.planned = True  # type: ignore[attr-defined]
    return error


class Thing:
    """A fake resource that knows how it is treated.

    Attributes:
        name: unique in its run.
        live: it exists and is not freed.
        opened, released: how often.
        early: somebody released it before its scope ended, so it is out of the order.
        users: who is using it at this moment.
    """

    __slots__ = ("early", "live", "name", "opened", "released", "users")

    def __init__(self, name: str) -> None:
        self.name = name
        self.live = False
        self.opened = self.released = self.users = 0
        self.early = False


class Ledger:
    """All fake resources of a run, against the census of the tree that owns them."""

    def __init__(self, loop: ExploringLoop, root: Scope) -> None:
        self.loop, self.root = loop, root
        self.things: dict[str, Thing] = {}
        self.closed: set[int] = set()
        """Keys of the scopes that somebody closes themselves; each has a driver of its own."""

    def thing(self, name: str) -> Thing:
        """A new one, not opened yet."""
        require(name not in self.things, f"{name} is opened twice")
        made = self.things[name] = Thing(name)
        return made

    def opened(self, thing: Thing) -> Thing:
        """It exists from now on."""
        thing.live = True
        thing.opened += 1
        self.loop.tell(f"    {thing.name} is there")
        return thing

    def releasing(self, thing: Thing) -> None:
        """Its release begins. V2, V3."""
        self.loop.tell(f"    {thing.name} is being released")
        require(thing.live, f"V2: {thing.name} is released, but it is not there")
        thing.released += 1
        require(thing.released == 1, f"V2: {thing.name} is released {thing.released} times")
        require(not thing.users, f"V3: {thing.name} is released under {thing.users} users")
        if not thing.early:
            self._check_order(thing)

    def freed(self, thing: Thing) -> None:
        """Its release is over."""
        thing.live = False
        self.loop.tell(f"    {thing.name} is gone")

    def _check_order(self, thing: Thing) -> None:
        places = dict(places_of(self.root, self.closed))
        mine = places.get(thing.name)
        if mine is None:
            return  # the disposer's: it has no place any more
        for name, place in places.items():
            if name == thing.name:
                continue
            same = mine.claimed is place.claimed and mine.claimed is not None
            if same and place.keys > mine.keys:
                raise Violation(f"V2: {thing.name} is released before {name}, which is younger")

    def check(self) -> None:
        """After every step: what exists stands in the census, and the other way round. V1."""
        held: set[str] = set()
        known: set[str] = set()
        for entry in self.root.census():
            if entry.kind == THING:
                require(entry.label not in known, f"V1: {entry.label} is held twice")
                known.add(entry.label)
                if entry.state in _HOLDS:
                    held.add(entry.label)
        for name, thing in self.things.items():
            if thing.live:
                require(name in known, f"V1: {name} exists and nobody owns it")
            else:
                require(name not in held, f"V1: {name} is held, but it is gone")

    def check_over(self) -> None:
        """At rest, everything closed. V1, V2."""
        for thing in self.things.values():
            require(not thing.live, f"V1: {thing.name} is never released")
            require(
                thing.opened == thing.released,
                f"V2: {thing.name} is opened {thing.opened} and released {thing.released} times",
            )
        left = [f"{e.kind} {e.label} {e.state}" for e in self.root.census()]
        require(not left, f"V1: the census of a closed tree holds {left}")


class _Place(NamedTuple):
    """Where a lease stands in the order of its tree, and the scope whose claim ends it."""

    keys: tuple[int, ...]
    claimed: Scope | None


def places_of(
    scope: Scope,
    closed: set[int],
    above: tuple[int, ...] = (),
    claimed: Scope | None = None,
) -> Iterable[tuple[str, _Place]]:
    """Every thing of a subtree, with its place: the keys from the top down, later is younger."""
    if not scope.admits and (claimed is None or scope.key in closed):
        claimed = scope
    for entry in scope._entries.values():
        keys = (*above, entry.key)
        if isinstance(entry, Scope):
            yield from places_of(entry, closed, keys, claimed)
        elif entry.kind == THING:
            yield entry.label, _Place(keys, claimed)


def check_nothing_left(loop: ExploringLoop, but: Iterable[asyncio.Task[Any]] = ()) -> None:
    """No task, timer or callback is left, and nothing outside is still waited for."""
    spared = {id(task) for task in but}
    left = [t.get_name() for t in loop.tasks if not t.done() and id(t) not in spared]
    require(not left, f"V4: these tasks are left: {left}")
    require(not loop.pending_timers, f"V1: {loop.pending_timers} timers are left")
    require(not loop.waiting_outside, f"V1: still waited for: {loop.waiting_outside}")
