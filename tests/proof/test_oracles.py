"""An oracle that cannot fail proves nothing: each one is shown a fault that was planted for it."""

from __future__ import annotations

import asyncio

import pytest

from proof.loop import ExploringLoop
from proof.oracles import THING, check_nothing_left
from proof.scenarios.tree import Tree
from proof.schedules import Scenario, run
from proof.seams import seams
from proof.strategies import Given
from proof.tokens import Token


def found(body) -> str:
    async def whole(loop: ExploringLoop) -> None:
        tree = Tree(loop)
        await body(tree)
        await tree.end()

    with seams():
        made = Scenario("made-up", "", whole)
        return run(made, Given({}), Token("made-up", "external", 0, "d")).violation


def test_a_run_without_a_fault_has_none():
    async def body(tree):
        scope = tree.root.child("a")
        tree.own(scope, "one")
        await tree.build(scope, "two")

    assert found(body) == ""


def test_what_nobody_owns():
    async def body(tree):
        tree.ledger.opened(tree.ledger.thing("stray"))
        await asyncio.sleep(0)

    assert found(body) == "V1: stray exists and nobody owns it"


def test_what_is_held_but_gone():
    async def body(tree):
        lease = tree.own(tree.root, "one")
        tree.ledger.freed(lease.value)
        await asyncio.sleep(0)

    assert found(body) == "V1: one is held, but it is gone"


def test_what_is_held_twice():
    async def body(tree):
        lease = tree.own(tree.root, "one")
        tree.root.own(THING, lease.value, tree.release, label="one")
        await asyncio.sleep(0)

    assert found(body) == "V1: one is held twice"


def test_a_second_release():
    async def body(tree):
        lease = tree.own(tree.root, "one")
        value = lease.value
        await lease.release()
        await tree.release(value)

    assert found(body) == "V2: one is released, but it is not there"


def test_a_release_out_of_order():
    async def body(tree):
        scope = tree.root.child("a")
        lease = tree.own(scope, "old")
        tree.own(scope, "young")
        scope.claim("over")
        lease.release_nowait()
        await tree.loop.quiet()

    assert found(body) == "V2: old is released before young, which is younger"


def test_a_release_under_a_user():
    async def body(tree):
        lease = tree.own(tree.root, "one")
        lease.value.users += 1
        await lease.release()

    assert found(body) == "V3: one is released under 1 users"


def test_an_acquisition_after_the_claim():
    async def body(tree):
        scope = tree.root.child("a")
        scope.claim("over")
        scope.state = type(scope.state).OPEN
        lease = scope.own("other", 1, lambda _: None)
        scope.state = type(scope.state).CLOSING
        assert lease
        tree.ledger.thing("late")
        await tree.loop.quiet()
        left = [e for e in scope.census() if e.kind == "other"]
        from proof.oracles import require

        require(not left, "V1: acquired after the claim")

    assert found(body) == "V1: acquired after the claim"


def test_what_is_never_released():
    async def body(tree):
        lease = tree.own(tree.root, "one")
        lease._release = lambda _: None

    assert found(body).startswith("V1: one exists and nobody owns it")


@pytest.mark.parametrize("what", ["task", "timer", "outside"])
def test_what_is_left(what):
    async def body(tree):
        if what == "task":
            tree.loop.create_task(asyncio.Event().wait(), name="stray")
        elif what == "timer":
            tree.loop.call_later(60.0, print)
        else:
            tree.loop.create_task(tree.loop.port("an answer"), name="waits")
            await asyncio.sleep(0)
            tree.loop._outside.clear()
            tree.loop.outside("an answer", lambda: None)
            check_nothing_left(tree.loop, tree.loop.tasks)

    async def waits(tree):
        await body(tree)

    told = found(waits)
    assert told.startswith(("V4: these tasks are left", "V1: 1 timers are left", "V1: still"))
