"""A tree of scopes full of fake things, for the scenarios of the primitives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from proof.loop import ExploringLoop, Violation
from proof.oracles import THING, Ledger, Thing, check_nothing_left, require
from proof.schedules import Scenario
from tenure.errors import LeaseClosed, ScopeClosed
from tenure.lifecycle.entry import Failure
from tenure.lifecycle.lease import Lease
from tenure.lifecycle.scope import Scope

Op = Callable[[], Coroutine[Any, Any, object]]


class Broken(Exception):  # noqa: N818 - it is planned
    """A fake that was to fail."""

    planned = True


REFUSALS = (ScopeClosed, LeaseClosed, Broken)
"""What an operation may meet in a race without anything being wrong."""


def is_open(scope: Scope | None) -> bool:
    """Whether neither it nor any scope above is claimed."""
    return scope is None or (scope.admits and is_open(scope.parent))


class Tree:
    """One run: the root, its things, and the operations that race.

    Args:
        loop: of the run.
    """

    def __init__(self, loop: ExploringLoop) -> None:
        self.loop = loop
        self.root = Scope.root("root", loop.clock)
        self.root.on_failure = self._failed
        self.ledger = Ledger(loop, self.root)
        self.failures: list[Failure] = []
        self.results: dict[str, object] = {}
        loop.on_step = self.ledger.check

    def _failed(self, failure: Failure, error: BaseException | None) -> None:
        expected = isinstance(error, (*REFUSALS, TimeoutError)) or hasattr(error, "planned")
        if error is not None and not expected:
            raise Violation(f"{failure.kind} {failure.label} failed with {error!r}")
        self.failures.append(failure)

    # --- things ---------------------------------------------------------------------------------

    def own(self, scope: Scope, name: str, **how: Any) -> Lease[Thing]:
        """A thing that is there already."""
        thing = self.ledger.opened(self.ledger.thing(name))
        lease = scope.own(THING, thing, self.release, label=name, **how)
        require(is_open(scope), f"V1: {name} was acquired by a scope that is claimed")
        return lease

    async def build(
        self, scope: Scope, name: str, *, fails: bool = False, release: Any = None
    ) -> Lease[Thing]:
        """A thing that takes time, and perhaps fails."""
        admitted = is_open(scope)
        thing = self.ledger.thing(name)
        lease = await scope.build(
            THING, lambda: self.make(thing, fails=fails), release or self.release, label=name
        )
        require(admitted, f"V1: {name} was begun in a scope that was claimed")
        require(is_open(scope), f"V1: {name} was handed out after the claim")
        return lease

    async def make(self, thing: Thing, *, fails: bool = False) -> Thing:
        """What a build does."""
        await self.loop.port(f"{thing.name} is made")
        if fails or self.loop.fault(f"making {thing.name}"):
            raise Broken(thing.name)
        return self.ledger.opened(thing)

    def make_in_thread(self, thing: Thing) -> Thing:
        """What a build in a thread does."""
        return self.ledger.opened(thing)

    def release(self, thing: Thing) -> Coroutine[Any, Any, None]:
        """Frees a thing; takes time, and perhaps fails after that. Begins at the call."""
        self.ledger.releasing(thing)
        return self._free(thing)

    async def _free(self, thing: Thing) -> None:
        await self.loop.port(f"{thing.name} is freed")
        self.ledger.freed(thing)
        if self.loop.fault(f"releasing {thing.name}"):
            raise Broken(thing.name)

    def release_at_once(self, thing: Thing) -> None:
        """Frees a thing in no time."""
        self.ledger.releasing(thing)
        self.ledger.freed(thing)

    def close(self, scope: Scope, *, patience_s: float | None = None) -> Coroutine[Any, Any, Any]:
        """Close a scope, directly: whatever is closed above, this one has its own driver."""
        self.ledger.closed.add(scope.key)
        return scope.close("closed", patience_s=patience_s)

    def give_up(self, lease: Lease[Thing], name: str) -> Coroutine[Any, Any, None]:
        """Release it early."""
        self.ledger.things[name].early = True
        return lease.release()

    # --- the race -------------------------------------------------------------------------------

    async def race(self, **ops: Op) -> None:
        """Let every operation begin at some moment, and wait until all are over."""
        over = self.loop.create_future()
        left = set(ops)
        self.loop.exploring = True
        for name, op in ops.items():
            self.loop.outside(f"{name} begins", partial(self._begin, name, op, left, over))
        await over

    def _begin(self, name: str, op: Op, left: set[str], over: asyncio.Future[None]) -> None:
        task = self.loop.create_task(self._guarded(name, op), name=name)
        keys: list[int] = []

        def arm() -> None:
            keys[:] = [self.loop.victim(f"{name} is cancelled", strike)]

        def strike() -> None:
            task.cancel()
            arm()

        def ended(_: object) -> None:
            self.results.setdefault(name, asyncio.CancelledError())
            self.loop.take_back(keys[0])
            left.discard(name)
            if not left and not over.done():
                over.set_result(None)

        arm()
        task.add_done_callback(ended)

    async def _guarded(self, name: str, op: Op) -> None:
        try:
            self.results[name] = await op()
        except REFUSALS as exc:
            self.results[name] = exc
            self.loop.tell(f"  {name} is refused: {type(exc).__name__}")
        except asyncio.CancelledError as exc:
            self.results[name] = exc
        except TimeoutError as exc:
            self.results[name] = exc

    async def end(self) -> None:
        """Close everything and see that nothing is left."""
        await self.loop.quiet()
        self.loop.exploring = False
        await self.close(self.root)
        await self.loop.quiet()
        self.ledger.check_over()
        check_nothing_left(self.loop, but=[asyncio.current_task()])  # type: ignore[list-item]


def scenario(
    *, share: float = 1.0, faults: int = 0, subject: str = "lifecycle"
) -> Callable[[Callable[[Tree], Coroutine[Any, Any, None]]], Scenario]:
    """Make a scenario of a function over a tree; its name and first line are the function's."""

    def made(body: Callable[[Tree], Coroutine[Any, Any, None]]) -> Scenario:
        async def run(loop: ExploringLoop) -> None:
            tree = Tree(loop)
            await body(tree)
            await tree.end()

        name = body.__name__.replace("_", "-")
        return Scenario(name, (body.__doc__ or name).strip(), run, share, faults, subject)

    return made
