"""The oracles of sessions, each shown a fault that was planted for it."""

from __future__ import annotations

import msgspec
import pytest

from proof.scenarios.house import House
from proof.schedules import Scenario, run
from proof.seams import seams
from proof.strategies import Given
from proof.tokens import Token
from tenure.protocol.messages import EventParams


def found(plant, before=None) -> str:
    """What the oracles say of a session with one turn, after `plant` was done to it at rest."""

    async def whole(loop):
        house = House(loop)
        await house.open()
        window = house.window = await house.begin()
        if before is not None:
            await before(house)
        await window.call("prompt.submit", session_id=house.sid, text="Hello.")
        await house.settle()
        await plant(house)
        await house.finish()

    with seams():
        return run(
            Scenario("made-up", "", whole), Given({}), Token("made-up", "external", 0, "d")
        ).violation


def rows(house):
    return house.stores["default"]._rows


def turn(house):
    (row,) = rows(house).turns.values()
    return row


async def nothing(house):
    pass


def test_a_run_without_a_fault_has_none():
    assert found(nothing) == ""


async def two_run(house):
    turn(house)["state"] = "running"
    rows(house).turns["other"] = {**turn(house), "id": "other"}
    house.watch._final.clear()
    house.stores["default"].commits += 1


async def final_twice(house):
    turn(house)["state"] = "failed"
    house.stores["default"].commits += 1


async def never_ends(house):
    turn(house).update(state="queued", ended_at=0.0)


async def lost(house):
    turn_id = turn(house)["id"]
    del rows(house).turns[turn_id]
    house.watch._final.clear()


async def number_missing(house):
    first = min(key for key in rows(house).events if key[0] == house.sid)
    del rows(house).events[first]


async def told_twice(house):
    events = rows(house).events
    key, end = next((k, e) for k, e in events.items() if e.type == "message.complete")
    events[key[0], 9, 1] = msgspec.structs.replace(end, epoch=9, seq=1)


async def no_end_told(house):
    events = rows(house).events
    key, end = next((k, e) for k, e in events.items() if e.type == "message.complete")
    events[key] = msgspec.structs.replace(end, type="something.else")


async def row_stays_open(house):
    row = dict(rows(house).sessions[house.sid], id="20270115_080000_ffffffff")
    rows(house).sessions[row["id"]] = row


async def question_stays_open(house):
    rows(house).approvals["ask"] = {"session_id": house.sid, "decision": "", "id": "ask"}


async def pinned(house):
    house.session.pins = 1


async def stream_left(house):
    house.script.open_streams += 1


async def step_left(house):
    house.gw.picker.opened.append("model")


async def task_left(house):
    house.session.scope.spawn(house.loop.clock.sleep(1e5), name="stray")


async def held_for_nobody(house):
    house.sessions.scope.child("session:gone").own("thing", 1, lambda _: None)


async def history_differs(house):
    journal = house.session.journal
    journal.items[-1] = msgspec.structs.replace(journal.items[-1], seq=99)


async def miscounted(house):
    house.sessions.ports.memory.histories.charge(5)


async def reaper_remembers(house):
    house.sessions.reaper._unattached["gone"] = None


async def two_incarnations(house):
    house.sessions.scope.child(f"session:{house.sid}")
    house.stores["default"].commits += 1
    await house.loop.clock.sleep(1.0)


async def works_without_a_turn(house):
    house.session.state = type(house.session.state).RUNNING
    await house.loop.clock.sleep(0)


async def attachment_stays(house):
    house.session.attachments._bound.clear()


async def profile_is_held(house):
    house.sessions.profiles._held["work"] = {"gone": house.gw.root.child("x")}


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        (two_run, "V12: 2 turns of a session are stored as running"),
        (final_twice, "V14: a turn that was completed is failed now"),
        (never_ends, "V14: a turn is queued and nobody runs it"),
        (lost, "V13: 1 accepted prompts are lost"),
        (number_missing, "V19"),
        (told_twice, "V14: 1 turns are told to have ended twice"),
        (no_end_told, "V14: 1 starts have no end"),
        (row_stays_open, "V9: 1 rows are open without a session"),
        (question_stays_open, "V22: a question is open for ever"),
        (pinned, "V5: s1 is pinned for ever"),
        (stream_left, "V1: 1 streams are open"),
        (step_left, "V1: 1 agents live"),
        (task_left, "V1: a task is left: stray"),
        (held_for_nobody, "V1: held for a session that is over: thing"),
        (history_differs, "V13: entries [99]"),
        (miscounted, "V25: the memory of histories is miscounted"),
        (reaper_remembers, "V25: the reaper remembers what is over"),
        (two_incarnations, "V5: two incarnations"),
        (works_without_a_turn, "V12: s1 works, but no turn runs"),
        (attachment_stays, "V8: 1 attachments are held, 0 are bound"),
        (profile_is_held, "V3: a profile is held"),
    ],
)
def test_a_fault_at_rest_is_found(plant, told):
    seen = found(plant)
    assert told in seen, seen


async def say(house, event):
    """Tell the window something as if the gateway had."""
    house.window._event(event)


async def not_stored(house):
    await say(house, EventParams("message.start", house.sid, {}, epoch=1, seq=77))


async def not_listening(house):
    house.window.cursors.clear()
    await house.window.call("prompt.submit", session_id=house.sid, text="More.")
    await house.settle()


async def gap(house):
    house.window.cursors[house.sid] = (1, 0)
    await house.window.call("prompt.submit", session_id=house.sid, text="More.")
    await house.settle()


async def accepted_only_in_words(house):
    house.window._answered(
        "prompt.submit", {"session_id": house.sid}, {"turn_id": "turn_none", "status": "streaming"}
    )


async def created_only_in_words(house):
    house.window._answered("session.create", {}, {"session_id": "20270115_080000_ffffffff"})


async def deleted_only_in_words(house):
    house.window._answered("session.delete", {}, {"deleted": house.sid})


async def fault_inside(house):
    house.window._refused("x", {"data": {"kind": "InternalError"}, "message": "broken"})


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        (not_stored, "message.start is told before it is stored"),
        (not_listening, "V8: W is told of s1 without listening"),
        (gap, "V19: message.start 1/"),
        (accepted_only_in_words, "accepted, but it is not stored"),
        (created_only_in_words, "created, but it is not stored"),
        (deleted_only_in_words, "V13: deleted, but it is still stored"),
        (fault_inside, "V27: x: broken"),
    ],
)
def test_a_false_word_is_found(plant, told):
    assert told in found(plant)
