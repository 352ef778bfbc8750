"""What several wait for: shared things, supervised children, mailboxes, threads."""

from __future__ import annotations

import asyncio
from typing import Any

from proof.oracles import THING, Thing, require
from proof.scenarios.tree import Broken, Tree, scenario
from tenure.errors import Overloaded, ScopeClosed
from tenure.lifecycle.mailbox import Mailbox
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.shared import Shared
from tenure.lifecycle.supervisor import Supervisor
from tenure.lifecycle.threads import run_in_thread
from tenure.lifecycle.uninterrupted import uninterrupted


class Pool:
    """One shared thing for each key, each incarnation a thing of its own in the ledger."""

    def __init__(self, tree: Tree, *, idle_s: float = 0.0, fails: int = 0) -> None:
        self.tree, self.fails = tree, fails
        self.made = 0
        self.alive: set[str] = set()
        self.home = tree.root.child("shared")
        self.shared: Shared[str, Thing] = Shared(
            self.home, "pool", build=self._build, release=self._release, idle_s=idle_s,
            grace_s=1e9,
        )  # fmt: skip
        self.users = tree.root.child("users")

    async def _build(self, key: str) -> Thing:
        require(key not in self.alive, f"V3: two of {key} exist at once")
        self.alive.add(key)
        self.made += 1
        thing = Thing(f"{key} {self.made}")
        await self.tree.loop.port(f"{thing.name} is made")
        if self.made <= self.fails or self.tree.loop.fault(f"making {thing.name}"):
            self.alive.discard(key)
            raise Broken(thing.name)
        thing.live = True
        return thing

    async def _release(self, thing: Thing) -> None:
        require(thing.live, f"V2: {thing.name} is released twice")
        require(not thing.users, f"V3: {thing.name} is released under {thing.users} users")
        await self.tree.loop.port(f"{thing.name} is freed")
        thing.live = False
        self.alive.discard(thing.name.split()[0])

    async def use(self, name: str, key: str = "db") -> None:
        """Borrow, use, give back."""
        mine: Scope = self.users.child(name)
        try:
            thing = await self.shared.borrow(key, mine)
            require(thing.live, f"V3: {name} is lent {thing.name}, which is gone")
            thing.users += 1
            mine.own("use", thing, _done)
            await self.tree.loop.port(f"{name} works")
            require(thing.live or not mine.admits, f"V3: {thing.name} has gone under {name}")
        finally:
            await mine.close("done")

    def check(self) -> None:
        """Nobody uses it any more."""
        require(not self.alive, f"V3: nobody uses {self.alive}, but it is kept")
        require(not len(self.shared), "V25: a key keeps its place for ever")


def _done(thing: Thing) -> None:
    thing.users -= 1


@scenario(faults=2)
async def two_borrowers_of_one_thing(tree: Tree) -> None:
    """Two sessions use one thing; it ends after the last of them."""
    pool = Pool(tree)
    await tree.race(
        a=lambda: pool.use("a"), b=lambda: pool.use("b"), c=lambda: pool.use("c", "other")
    )
    await tree.loop.quiet()
    pool.check()


@scenario(faults=1)
async def a_borrower_after_the_last(tree: Tree) -> None:
    """One comes while the thing of the one before is being released."""
    pool = Pool(tree)

    async def twice() -> None:
        await pool.use("a")
        await pool.use("a again")

    await tree.race(a=twice, b=lambda: pool.use("b"))
    await tree.loop.quiet()
    pool.check()


@scenario(faults=1)
async def a_shared_build_that_fails(tree: Tree) -> None:
    """The first build fails for everybody who waits for it; the next one tries again."""
    pool = Pool(tree, fails=1)

    async def stubborn() -> None:
        for n in range(2):
            try:
                await pool.use(f"a{n}")
            except Broken:
                continue
            return

    await tree.race(a=stubborn, b=lambda: pool.use("b"), c=lambda: pool.use("c"))
    await tree.loop.quiet()
    pool.check()


@scenario(faults=1)
async def discard_against_borrow(tree: Tree) -> None:
    """A thing is found dead while one uses it and another comes."""
    pool = Pool(tree)
    await tree.race(
        a=lambda: pool.use("a"),
        b=lambda: pool.use("b"),
        finder=lambda: pool.shared.discard("db"),
    )
    await tree.loop.quiet()
    pool.check()


@scenario(faults=1)
async def idle_things_against_borrow(tree: Tree) -> None:
    """What nobody uses is kept for a while, ended at once on demand, and used again meanwhile."""
    pool = Pool(tree, idle_s=5.0)
    await tree.race(a=lambda: pool.use("a"), b=lambda: pool.use("b"), cleaner=pool.shared.end_idle)
    await tree.close(pool.home)
    await tree.loop.quiet()
    pool.check()


@scenario(faults=1)
async def close_of_what_is_shared(tree: Tree) -> None:
    """The users of a shared thing end, then its home, while somebody still comes."""
    pool = Pool(tree)

    async def close() -> None:
        await tree.close(pool.users)
        await tree.close(pool.home)

    await tree.race(a=lambda: pool.use("a"), b=lambda: pool.use("b"), closer=close)
    await tree.loop.quiet()
    pool.check()


class Child:
    """A supervised child that fails a few times; never twice at once."""

    def __init__(self, tree: Tree, fails: int) -> None:
        self.tree, self.fails = tree, fails
        self.runs = self.running = 0

    async def run(self, scope: Scope) -> None:
        require(not self.running, "V5: two of a supervised child run at once")
        self.running += 1
        self.runs += 1
        try:
            self.tree.own(scope, f"of run {self.runs}")
            await self.tree.loop.port("the child works")
            if self.runs <= self.fails:
                raise Broken("child")
            await self.tree.loop.create_future()
        finally:
            self.running -= 1


@scenario()
async def stop_against_restart(tree: Tree) -> None:
    """A child is stopped in the moment in which it fails: it is not started again."""
    scope = tree.root.child("supervisor")
    child = Child(tree, fails=2)
    supervised = Supervisor(scope).start("child", child.run)

    async def stop() -> None:
        await supervised.stop()
        runs = child.runs
        require(not child.running, "V6: it runs after its stop")
        await tree.loop.port("later")
        require(child.runs == runs, "V6: a child that was stopped is started again")

    await tree.race(one=stop, two=stop)


@scenario()
async def close_against_restart(tree: Tree) -> None:
    """The supervisor's scope is closed while a child fails and is started again."""
    scope = tree.root.child("supervisor")
    child = Child(tree, fails=2)
    Supervisor(scope).start("child", child.run)
    await tree.race(closer=lambda: tree.close(scope), above=lambda: tree.close(tree.root))
    require(not child.running, "V1: it runs in a closed scope")


@scenario()
async def a_child_that_fails_too_often(tree: Tree) -> None:
    """A child that always fails is given up after so many tries."""
    scope = tree.root.child("supervisor")
    child = Child(tree, fails=99)
    supervised = Supervisor(scope, max_restarts=2).start("child", child.run)

    async def watch() -> None:
        while not (supervised.given_up or supervised.task.ending):
            await asyncio.sleep(1.0)

    await tree.race(watcher=watch)
    require(supervised.given_up and child.runs == 3, f"V27: {child.runs} runs, 3 are allowed")


@scenario(faults=1)
async def post_against_close(tree: Tree) -> None:
    """Messages meet the close of their mailbox: each is taken, given back or refused, once."""
    scope = tree.root.child("actor")
    box: Mailbox[int] = Mailbox(scope, limit=3)
    posted: list[int] = []
    taken: list[int] = []
    rest: list[int] = []

    async def post() -> None:
        for n in range(4):
            try:
                box.post(n)
            except Overloaded:
                require(len(box) == 3, "V20: refused, but there is room")
            else:
                posted.append(n)
            await tree.loop.port("the next message")

    async def take() -> None:
        while len(taken) < 4:
            taken.append(await box.get())

    async def close() -> None:
        scope.claim("closed")
        rest.extend(box.close())

    await tree.race(poster=post, taker=take, closer=close)
    rest += box.close()
    require(taken + rest == posted, f"V13: posted {posted}, taken {taken}, left {rest}")


@scenario(faults=2)
async def a_taker_who_leaves(tree: Tree) -> None:
    """Cancelling who waits at a mailbox loses no message."""
    box: Mailbox[int] = Mailbox()
    taken: list[int] = []

    async def post() -> None:
        for n in range(3):
            box.post(n)
            await tree.loop.port("the next message")

    async def take() -> None:
        taken.append(await box.get())

    await tree.race(poster=post, taker=take)
    rest = box.close()
    require((taken + rest) == list(range(len(taken + rest))), f"V13: {taken} and {rest}")


@scenario(faults=1)
async def a_thread_against_close(tree: Tree) -> None:
    """Work in a thread: the close waits for it, and the result is not lost to who waits."""
    scope = tree.root.child("session")
    tree.own(scope, "used by the thread")
    running: list[str] = []

    def work() -> str:
        require(tree.ledger.things["used by the thread"].live, "V3: gone under the thread")
        running.append("ran")
        return "result"

    async def ask() -> None:
        got = await run_in_thread(scope, work)
        require(got == "result", "the result is another one")

    await tree.race(asker=ask, second=ask, closer=lambda: tree.close(scope))


@scenario(faults=2)
async def a_step_that_is_not_cut(tree: Tree) -> None:
    """A short step happens whole although whoever needs it is cancelled, even twice."""
    steps: list[str] = []

    async def step() -> str:
        steps.append("begun")
        await tree.loop.port("the write")
        steps.append("done")
        return "written"

    async def write() -> Any:
        return await uninterrupted(tree.loop.clock, 1e6, step())

    await tree.race(writer=write)
    require(steps in (["begun", "done"], []), f"V15: a step was cut in two: {steps}")


@scenario(faults=1)
async def refused_things_are_closed(tree: Tree) -> None:
    """Builds that are asked for after the claim are refused without a step."""
    scope = tree.root.child("session")

    async def many() -> None:
        for n in range(3):
            try:
                await tree.build(scope, f"thing {n}")
            except ScopeClosed:
                await tree.loop.port("tried again")

    async def tasks() -> None:
        for n in range(3):
            started: list[int] = []
            was_open = scope.admits
            try:
                scope.spawn(_note(started), name=f"task {n}")
            except ScopeClosed:
                require(not was_open, "refused by an open scope")
            await tree.loop.port("another task")

    await tree.race(builder=many, tasks=tasks, closer=lambda: tree.close(scope))


async def _note(started: list[int]) -> None:
    started.append(1)


SCENARIOS = tuple(one for one in list(globals().values()) if type(one).__name__ == "Scenario")
_ = THING
