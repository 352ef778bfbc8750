"""Random programs over every primitive at once, on a loop that also permutes what is ready.

Each program makes scopes, owns, builds (several in one scope), spawns, moves, borrows, releases
early, claims and closes, at random, then closes the root. The oracles know nothing of how the
kernel works: everything acquired is released once, nothing is acquired after a claim, and at the
moment a closing begins to release a thing, all that came later has ended.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque

import pytest

from tenure.clock import SystemClock
from tenure.errors import LeaseClosed, LifecycleError, ScopeClosed
from tenure.lifecycle.entry import LeaseState, ScopeState
from tenure.lifecycle.scope import Scope

PROGRAMS = 500
ACTORS = 6
STEPS = 9


class ShufflingLoop(asyncio.SelectorEventLoop):
    """Runs the ready handles of each turn in random order."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng

    def _run_once(self) -> None:
        ready = list(self._ready)
        self._rng.shuffle(ready)
        self._ready = deque(ready)
        super()._run_once()


class Thing:
    """Something that is acquired, with its history."""

    def __init__(self, world: World, scope: Scope, slow: bool) -> None:
        self.world = world
        self.scope = scope
        self.place = next(world.places)
        self.slow = slow
        self.acquired = False
        self.begun = 0
        self.over = False
        self.early = False  # somebody asked for its release, so no order holds
        self.late = False  # its scope did not take it: it is the disposer's
        self.building = False
        self.abandonable = False  # its caller may be cancelled while the scope is open
        self.lease = None
        self.task: asyncio.Task | None = None

    @property
    def gone(self) -> bool:
        """A task that was cancelled before its first step never says that it is over."""
        return self.over or not self.acquired or (self.task is not None and self.task.done())

    def release(self, _: object):
        self.begun += 1
        assert self.begun == 1, "released twice"
        assert self.acquired, "released before it was there"
        assert not self.lease or self.lease.borrowers == 0, "released under a borrower"
        if not (self.early or self.late or (self.abandonable and self.scope.admits)):
            self.world.check_order(self)
        if not self.slow:
            self.over = True
            return None
        return self._release_slowly()

    async def _release_slowly(self) -> None:
        await self.world.steps()
        self.over = True

    async def work(self) -> None:
        try:
            await self.world.steps(20)
        finally:
            self.begun += 1
            try:
                await self.world.steps()
            finally:
                self.over = True


class World:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.root = Scope.root("root", SystemClock())
        self.places = iter(range(1, 1_000_000))
        self.scopes: dict[Scope, int] = {self.root: 0}
        self.closed_by_name: set[Scope] = set()
        self.things: list[Thing] = []
        self.leases: list = []

    async def steps(self, most: int = 4) -> None:
        for _ in range(self.rng.randrange(most)):
            await asyncio.sleep(0)

    def check_order(self, thing: Thing) -> None:
        """All that stands later in its scope has ended; likewise above, up to who was closed."""
        scope, place = thing.scope, thing.place
        while True:
            assert scope.state is not ScopeState.OPEN, "a thing of an open scope was released"
            for other in self.things:
                if (
                    other.place <= place
                    or other.late
                    or not self.is_below(other.scope, scope, place)
                ):
                    continue
                assert not other.building, "a later build is still running"
                assert other.gone, "something later is still there"
            if scope in self.closed_by_name or scope.parent is None:
                return
            scope, place = scope.parent, self.scopes[scope]

    def is_below(self, inner: Scope, outer: Scope, place: int) -> bool:
        """Whether `inner` is `outer` or, through a child that came after `place`, below it."""
        while inner is not outer:
            if inner.parent is None or (inner.parent is outer and self.scopes[inner] <= place):
                return False
            inner = inner.parent
        return True

    # --- what an actor may do -----------------------------------------------------------------

    async def own(self, scope: Scope) -> None:
        admits = scope.admits
        thing = Thing(self, scope, self.rng.random() < 0.5)
        thing.acquired = True
        thing.late = not admits
        try:
            thing.lease = scope.own("thing", thing, thing.release)
        except ScopeClosed:
            assert not admits
            self.things.append(thing)
            return
        assert admits, "acquired after the claim"
        self.things.append(thing)
        self.leases.append(thing.lease)

    async def build(self, scope: Scope, *, abandonable: bool = False) -> None:
        admits = scope.admits
        thing = Thing(self, scope, self.rng.random() < 0.5)
        thing.abandonable = abandonable
        thing.building = admits

        async def start() -> Thing:
            await self.steps(8)
            thing.building = False
            if self.rng.random() < 0.2:
                raise KeyError("a build fails")
            thing.acquired = True
            return thing

        if admits:
            self.things.append(thing)
        try:
            lease = await scope.build("thing", start, thing.release)
        except (ScopeClosed, KeyError):
            return
        assert admits
        assert scope.admits, "published after the claim"
        thing.lease = lease
        self.leases.append(lease)

    async def cancelled_build(self, scope: Scope) -> None:
        task = asyncio.get_running_loop().create_task(self.build(scope, abandonable=True))
        await self.steps()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass

    async def child(self, scope: Scope) -> None:
        admits = scope.admits
        try:
            child = scope.child("c")
        except ScopeClosed:
            assert not admits
            return
        assert admits
        self.scopes[child] = next(self.places)

    async def spawn(self, scope: Scope) -> None:
        thing = Thing(self, scope, slow=True)
        try:
            thing.lease = scope.spawn(thing.work(), name="work")
        except ScopeClosed:
            return
        thing.acquired = True
        self.things.append(thing)
        thing.task = thing.lease.value

    async def move(self, scope: Scope) -> None:
        if not self.leases:
            return
        lease = self.rng.choice(self.leases)
        thing = lease.value if lease.state is LeaseState.HELD else None
        allowed = thing is not None and thing.scope.admits and scope.admits
        try:
            lease.move_to(scope)
        except (LeaseClosed, ScopeClosed):
            assert not allowed
            return
        assert allowed, "moved although it was claimed"
        thing.scope, thing.place = scope, next(self.places)

    async def release(self, _: Scope) -> None:
        if self.leases:
            lease = self.rng.choice(self.leases)
            if lease.state is LeaseState.HELD:
                lease.value.early = True
            waiting = lease.release()
            assert lease.state is not LeaseState.HELD
            await waiting
            assert lease.state is LeaseState.RELEASED

    async def borrow(self, _: Scope) -> None:
        if not self.leases:
            return
        lease = self.rng.choice(self.leases)
        try:
            with lease as thing:
                assert not thing.begun
                await self.steps()
                assert not thing.begun
        except LeaseClosed:
            return

    async def claim(self, scope: Scope) -> None:
        if self.rng.random() < 0.3:
            scope.claim("claimed")
            assert all(not s.admits for s in self.scopes if self.is_below(s, scope, -1))

    async def close(self, scope: Scope) -> None:
        if self.rng.random() < 0.5:
            self.closed_by_name.add(scope)
            report = await scope.close("closed by name")
            assert report is await scope.close()
            assert scope.state is ScopeState.CLOSED

    async def actor(self) -> None:
        actions = [
            self.own, self.own, self.build, self.build, self.cancelled_build, self.child,
            self.spawn, self.move, self.release, self.borrow, self.claim, self.close,
        ]  # fmt: skip
        for _ in range(STEPS):
            await self.steps()
            await self.rng.choice(actions)(self.rng.choice(list(self.scopes)))

    async def run(self) -> None:
        tasks = [asyncio.get_running_loop().create_task(self.actor()) for _ in range(ACTORS)]
        await self.steps(40)
        self.root.claim("enough")  # while they still work
        self.closed_by_name.add(self.root)
        report = await self.root.close()
        for task in tasks:
            await task
        assert all("a build fails" in failure.error for failure in report.failures), report
        assert all(entry.owner == "root/disposer" for entry in self.root.census())
        while self.root.census():  # what came after the close is still being released
            await asyncio.sleep(0)
        for thing in self.things:
            assert thing.gone, "left behind"
            assert thing.begun <= 1


@pytest.mark.parametrize("shuffled", [False, True])
def test_random_programs(shuffled):
    for seed in range(PROGRAMS):
        rng = random.Random(-seed)
        factory = (lambda rng=rng: ShufflingLoop(rng)) if shuffled else None

        async def main(seed: int = seed) -> None:
            errors = []
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: errors.append(context))
            async with asyncio.timeout(30):
                await World(seed).run()
            assert errors == []

        try:
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(main())
        except (AssertionError, LifecycleError, TimeoutError) as exc:
            raise AssertionError(f"seed {seed}: {exc!r}") from exc
