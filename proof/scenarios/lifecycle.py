"""Scopes and leases: building, owning, borrowing, moving, releasing, closing."""

from __future__ import annotations

import asyncio

from proof.oracles import THING, require
from proof.scenarios.tree import Broken, Tree, is_open, scenario
from tenure.lifecycle.deadline import deadline


@scenario(faults=1)
async def close_against_build(tree: Tree) -> None:
    """A scope is closed while something is being built in it."""
    scope = tree.root.child("session")
    tree.own(scope, "ground")
    await tree.race(builder=lambda: tree.build(scope, "built"), closer=lambda: tree.close(scope))


@scenario(faults=2)
async def close_against_two_builds(tree: Tree) -> None:
    """Two builds in one scope, and its close."""
    scope = tree.root.child("session")
    await tree.race(
        first=lambda: tree.build(scope, "one"),
        second=lambda: tree.build(scope, "two"),
        closer=lambda: tree.close(scope),
    )


@scenario()
async def close_against_steps(tree: Tree) -> None:
    """An agent is made in three steps, each on top of the last, while its session is closed."""
    scope = tree.root.child("session")

    async def steps() -> None:
        for name in ("credentials", "client", "model"):
            await tree.build(scope, name)

    await tree.race(builder=steps, closer=lambda: tree.close(scope))


@scenario(faults=1)
async def a_build_that_fails(tree: Tree) -> None:
    """Of two builds one fails, and the scope is closed."""
    scope = tree.root.child("session")
    await tree.race(
        failing=lambda: tree.build(scope, "broken", fails=True),
        good=lambda: tree.build(scope, "good"),
        closer=lambda: tree.close(scope),
    )


@scenario(faults=2)
async def a_builder_who_leaves(tree: Tree) -> None:
    """Whoever has asked for a build leaves, perhaps twice; the scope stays open."""
    scope = tree.root.child("session")
    await tree.race(first=lambda: tree.build(scope, "one"), second=lambda: tree.build(scope, "two"))
    await tree.loop.quiet()
    held = [e.label for e in scope.census()]
    for name, op in (("one", "first"), ("two", "second")):
        got_it = not isinstance(tree.results[op], BaseException)
        require((name in held) == got_it, f"V1: {op} {'has' if got_it else 'has not'} {name}")


@scenario(faults=1)
async def close_against_build_in_thread(tree: Tree) -> None:
    """A build in a thread, and a close at any moment of it."""
    scope = tree.root.child("session")
    tree.own(scope, "ground")

    async def build() -> None:
        thing = tree.ledger.thing("slow")
        await scope.build_in_thread(
            THING, lambda: tree.make_in_thread(thing), tree.release, label="slow"
        )
        require(scope.admits, "V1: handed out after the claim")

    await tree.race(builder=build, closer=lambda: tree.close(scope))


@scenario()
async def own_too_late(tree: Tree) -> None:
    """Somebody comes with a thing when the scope may be closing."""
    scope = tree.root.child("session")
    tree.own(scope, "ground")

    async def late() -> None:
        await tree.loop.port("a thing comes")
        tree.own(scope, "late")

    await tree.race(bringer=late, other=late_two(tree), closer=lambda: tree.close(scope))


def late_two(tree: Tree):  # type: ignore[no-untyped-def]  # noqa: ANN201 - an operation
    async def late() -> None:
        tree.own(tree.root, "of the root")
        await tree.loop.port("another comes")
        tree.own(tree.root, "of the root too")

    return late


@scenario()
async def two_closers(tree: Tree) -> None:
    """A scope is closed twice, and its parent too."""
    parent = tree.root.child("sessions")
    tree.own(parent, "shared")
    child = parent.child("session")
    for n in range(3):
        tree.own(child, f"own {n}")
    await tree.race(
        one=lambda: tree.close(child),
        two=lambda: tree.close(child),
        above=lambda: tree.close(parent),
    )
    reports = {id(tree.results["one"]), id(tree.results["two"])}
    require(len(reports) == 1, "V4: two closers have two reports")


@scenario()
async def close_of_three_levels(tree: Tree) -> None:
    """Things on three levels, acquired in turns; each level is closed by somebody."""
    top = tree.root.child("gateway")
    tree.own(top, "a")
    middle = top.child("session")
    tree.own(middle, "b")
    bottom = middle.child("turn")
    tree.own(bottom, "c")
    tree.own(middle, "d")
    tree.own(top, "e")
    tree.own(bottom, "f")
    await tree.race(
        bottom=lambda: tree.close(bottom),
        top=lambda: tree.close(top),
        middle=lambda: tree.close(middle),
    )


@scenario()
async def a_child_against_the_claim(tree: Tree) -> None:
    """A child scope is made and filled while its parent is being closed."""
    parent = tree.root.child("session")
    tree.own(parent, "ground")

    older = parent.child("older turn")
    tree.own(parent, "younger than that turn")

    async def grow() -> None:
        child = parent.child("turn")
        await tree.build(child, "leaf")
        tree.own(child, "second leaf")

    await tree.race(
        grower=grow,
        late=lambda: tree.build(older, "leaf of the older"),
        closer=lambda: tree.close(parent),
    )


@scenario()
async def early_release_against_close(tree: Tree) -> None:
    """Something is released early on top of something else, while all is closed."""
    scope = tree.root.child("session")
    tree.own(scope, "ground")
    lease = tree.own(scope, "top")
    await tree.race(early=lambda: tree.give_up(lease, "top"), closer=lambda: tree.close(scope))


@scenario(faults=1)
async def two_early_releases(tree: Tree) -> None:
    """The same thing is released by two at once, and by the close."""
    scope = tree.root.child("session")
    lease = tree.own(scope, "thing")

    async def give_up() -> None:
        await tree.give_up(lease, "thing")
        leaked = lease.state.value == "leaked"  # its grace may be over before it is
        require(leaked or not tree.ledger.things["thing"].live, "V4: released, but still there")

    await tree.race(one=give_up, two=give_up, closer=lambda: tree.close(scope))


def using(tree: Tree, lease, name: str, at: str):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """An operation that borrows a thing for a moment."""

    async def use() -> None:
        with lease as thing:
            require(thing.live, f"V3: {name} is lent out, but it is gone")
            require(is_open(lease.owner), f"V1: {name} is lent out after the claim")
            thing.users += 1
            try:
                await tree.loop.port(at)
                require(thing.live, f"V3: {name} has gone under its user")
            finally:
                thing.users -= 1

    return use


@scenario(faults=1)
async def borrow_against_release(tree: Tree) -> None:
    """Something is borrowed while it is released early and its scope is closed."""
    scope = tree.root.child("session")
    lease = tree.own(scope, "lent", grace_s=1e9)
    await tree.race(
        user=using(tree, lease, "lent", "used"),
        second=using(tree, lease, "lent", "used again"),
        owner=lambda: tree.give_up(lease, "lent"),
        closer=lambda: tree.close(scope),
    )


@scenario(faults=1)
async def borrow_against_close(tree: Tree) -> None:
    """Two borrow what stands under something younger, while the scope above is closed."""
    above = tree.root.child("gateway")
    scope = above.child("session")
    lease = tree.own(scope, "lent", grace_s=1e9)
    tree.own(scope, "younger")
    await tree.race(
        user=using(tree, lease, "lent", "used"),
        second=using(tree, lease, "lent", "used again"),
        closer=lambda: tree.close(above),
    )


@scenario()
async def move_against_release(tree: Tree) -> None:
    """A lease moves to another scope while it is released."""
    old, new = tree.root.child("old"), tree.root.child("new")
    lease = tree.own(old, "moved")

    async def move() -> None:
        lease.move_to(new)
        require(not lease.ending, "V6: moved while it was being released")
        require(lease.owner is new and new.admits, "V1: moved into a scope that is claimed")

    async def give_up() -> None:
        releasing = tree.give_up(lease, "moved")
        require(lease.ending, "V6: the claim of a release takes effect later than its call")
        await releasing

    await tree.race(mover=move, releaser=give_up)


@scenario()
async def move_between_closing_scopes(tree: Tree) -> None:
    """A lease moves while the scope that it leaves, and the one that it enters, are closed."""
    old, new = tree.root.child("old"), tree.root.child("new")
    tree.own(new, "before")
    lease = tree.own(old, "moved")
    tree.own(old, "stays")

    async def move() -> None:
        was_open = lease.owner.admits and new.admits
        lease.move_to(new)
        require(was_open, "V1: moved from or into a scope that is claimed")

    await tree.race(
        mover=move, giver=lambda: tree.close(old), taker=lambda: tree.close(new), back=move
    )


@scenario(faults=1)
async def build_then_move(tree: Tree) -> None:
    """What was built for a turn is kept by the session, while either is closed."""
    session = tree.root.child("session")
    turn = session.child("turn")

    async def keep() -> None:
        lease = await tree.build(turn, "kept")
        await tree.loop.port("it is worth keeping")
        lease.move_to(session)

    await tree.race(keeper=keep, turn=lambda: tree.close(turn), closer=lambda: tree.close(session))


@scenario()
async def spawn_against_claim(tree: Tree) -> None:
    """A task is started in a scope that is being closed; it uses something older."""
    scope = tree.root.child("session")
    lease = tree.own(scope, "used by a task")

    async def work() -> None:
        await using(tree, lease, "used by a task", "works")()

    async def start() -> None:
        scope.spawn(work(), name="work")
        scope.spawn(work(), name="more work")

    await tree.race(starter=start, closer=lambda: tree.close(scope))


@scenario()
async def a_task_that_ends_by_itself(tree: Tree) -> None:
    """A task is over in the moment in which its scope cancels it."""
    scope = tree.root.child("session")
    tree.own(scope, "ground")
    ended: list[str] = []

    async def work() -> None:
        try:
            await tree.loop.port("the last step")
        finally:
            ended.append("work")

    lease = scope.spawn(work(), name="work")
    await tree.race(stopper=lease.release, closer=lambda: tree.close(scope))
    require(len(ended) <= 1, "V2: a task ended twice")


@scenario()
async def a_task_that_does_not_obey(tree: Tree) -> None:
    """A task takes its first cancellation for somebody else's."""
    scope = tree.root.child("session")
    tree.own(scope, "ground")

    async def deaf() -> None:
        try:
            await tree.loop.create_future()
        except asyncio.CancelledError:
            await late  # the second one, after the grace, is obeyed

    late = tree.loop.create_future()
    scope.spawn(deaf(), name="deaf", grace_s=3.0)
    tree.own(scope, "younger")
    await tree.race(closer=lambda: tree.close(scope), above=lambda: tree.close(tree.root))
    if not late.done():  # both cancellations may have come as one
        late.set_result(None)


@scenario()
async def a_release_that_fails(tree: Tree) -> None:
    """One of three releases fails; the other two are made, in order."""
    scope = tree.root.child("session")

    async def fail(thing) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        await tree.release(thing)
        raise Broken(thing.name)

    tree.own(scope, "first")
    thing = tree.ledger.opened(tree.ledger.thing("bad"))
    scope.own(THING, thing, fail, label="bad")
    tree.own(scope, "last")
    await tree.race(
        closer=lambda: tree.close(scope),
        second=lambda: tree.close(scope),
        above=lambda: tree.close(tree.root),
    )
    report = await tree.close(tree.root)
    told = [f.label for f in report.failures if f.outcome == "failed"]
    require(len(told) <= 1, f"V2: one failure is reported {len(told)} times")
    failed = [f.label for f in tree.failures if f.outcome == "failed"]
    leaked = [f.label for f in tree.failures if f.outcome == "leaked"]
    require(failed == ["bad"] or "bad" in leaked, f"V2: of one failure these are told: {failed}")


@scenario()
async def a_release_that_hangs(tree: Tree) -> None:
    """A release never ends by itself: it is killed after its grace, and the next one follows."""
    scope = tree.root.child("session")
    tree.own(scope, "first")
    thing = tree.ledger.opened(tree.ledger.thing("hanging"))
    killed = tree.loop.create_future()

    async def hang(_: object) -> None:
        tree.ledger.releasing(thing)
        await killed
        tree.ledger.freed(thing)

    scope.own(THING, thing, hang, kill=lambda _: killed.set_result(None), label="hanging")
    await tree.race(
        closer=lambda: tree.close(scope),
        impatient=lambda: tree.close(scope, patience_s=1.0),
    )


@scenario()
async def a_release_that_leaks(tree: Tree) -> None:
    """A release that cannot even be killed is left behind, in the census until it ends."""
    scope = tree.root.child("session")
    tree.own(scope, "first")
    thing = tree.ledger.opened(tree.ledger.thing("leaking"))
    late = tree.loop.create_future()

    async def leak(_: object) -> None:
        tree.ledger.releasing(thing)
        await late
        tree.ledger.freed(thing)

    scope.own(THING, thing, leak, label="leaking", grace_s=1.0)
    await tree.race(closer=lambda: tree.close(scope))
    left = [e.state for e in tree.root.census() if e.label == "leaking"]
    require(left == ["leaked"], f"V1: what leaks stands in the census as {left}")
    late.set_result(None)


@scenario(faults=1)
async def a_waiter_without_patience(tree: Tree) -> None:
    """One who closes waits for a second only; the closing goes on without them."""
    scope = tree.root.child("session")
    for n in range(3):
        tree.own(scope, f"slow {n}")
    await tree.race(
        impatient=lambda: tree.close(scope, patience_s=1.0),
        patient=lambda: tree.close(scope),
    )
    await tree.loop.quiet()
    require(scope.state.value == "closed", "V4: the closing stopped with its waiter")


@scenario(faults=1)
async def a_late_product(tree: Tree) -> None:
    """What comes for a closed tree is freed by the disposer before the root is closed."""
    scope = tree.root.child("session")

    async def late(name: str) -> None:
        await tree.loop.port(f"{name} comes")
        tree.own(scope, name)

    await tree.race(
        one=lambda: late("late one"),
        two=lambda: late("late two"),
        closer=lambda: tree.close(scope),
        root=lambda: tree.close(tree.root),
    )


@scenario(faults=2)
async def a_deadline_and_a_cancel(tree: Tree) -> None:
    """Time is up in the moment in which the waiter is cancelled: the cancel is not swallowed."""
    scope = tree.root.child("session")
    struck: list[str] = []

    async def wait() -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            async with deadline(tree.loop.clock, 1.0):
                await tree.loop.port("the answer")
        except TimeoutError:
            require(not task.cancelling(), "V15: a cancel was taken for the end of time")
            struck.append("time")

    await tree.race(waiter=wait, closer=lambda: tree.close(scope))


SCENARIOS = tuple(one for one in list(globals().values()) if type(one).__name__ == "Scenario")
