"""The place of a tool server, without a child: who may have it next."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import ProcessError, ToolError
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.toolservers.calls import Caller, Lost, Outcome
from tenure.toolservers.declared import Declared
from tenure.toolservers.slot import Slot


class Child:
    """Runs until it is told to die; may survive its end, or take its time with it."""

    pid = 1
    on_changed = None

    def __init__(self):
        self.gone, self.over = "", asyncio.Event()

    def end(self, why):
        self.gone = self.gone or why
        self.over.set()

    async def wait_gone(self):
        await self.over.wait()
        return self.gone

    async def call(self, tool, _arguments, _caller, dispatch, _timeout_s):
        dispatch.begun = True
        if tool == "die":
            self.end("it died")
        if self.gone:
            raise Lost(self.gone)
        return Outcome(tool)


class Places:
    """Slots for one server, one after the other, and the children that run in them."""

    def __init__(self, root):
        self.root, self.running, self.most = root, [], 0
        self.survives, self.broken = False, False
        self.ends = Gate()
        self.ends.release()

    def slot(self, name, before=None):
        slot = Slot(self.root.child(name), name, Declared(command="x"), self.start, {}, bool)
        slot.before = before
        return slot

    async def start(self, scope):
        child = Child()
        self.running.append(child)
        self.most = max(self.most, len(self.running))
        scope.own("tool server", child, self.end)
        if self.broken:
            raise ToolError("it did not come up")
        return child

    async def end(self, child):
        await self.ends.park()
        if self.survives:
            raise ProcessError("Process 1 survived SIGKILL.")
        self.running.remove(child)


@pytest.fixture
def places(root):
    return Places(root)


async def called(slot, tool="x"):
    try:
        return (await slot.call(tool, {}, Caller(lambda _: None))).text
    except ToolError as exc:
        return exc.message


async def test_what_survives_a_failed_start_is_not_tried_beside(places, clock):
    places.broken = True
    slot = places.slot("slot")
    assert "does not start" in await called(slot)
    places.survives = True  # the next try, in the background, cannot be ended
    for _ in range(20):
        await settle()
        clock.advance(300)
    assert "could not be ended" in await called(slot)
    assert (slot.starts, places.most) == (2, 1)


async def test_what_has_survived_keeps_the_place_from_its_successor(places):
    places.survives = True
    old = places.slot("old")
    assert await called(old) == "x"
    assert "outcome is unknown" in await called(old, "die")
    await settle()  # its end has failed before anybody has replaced it
    new = places.slot("new", before=old)
    assert "could not be ended" in await called(new)
    assert places.most == 1


async def test_an_end_that_nobody_waited_for_is_judged_by_the_successor(places):
    places.broken = places.survives = True
    places.ends = Gate()
    old = places.slot("old")
    call = places.root.spawn(called(old), name="call").value
    await settle()
    call.cancel()  # it waits for the end of what did not start
    await settle()
    places.ends.release()
    await settle()
    places.broken = False
    new = places.slot("new", before=old)
    assert "could not be ended" in await called(new)
    assert places.most == 1


async def test_one_that_never_started_hands_on_the_place_when_it_is_free(places):
    old = places.slot("old")
    assert await called(old) == "x"
    places.ends = Gate()
    between = places.slot("between", before=old)
    new = places.slot("new", before=between)
    call = places.root.spawn(called(new), name="call").value
    await settle()
    assert not call.done() and places.most == 1
    places.ends.release()
    assert await call == "x" and places.most == 1
