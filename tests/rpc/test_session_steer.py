"""session.steer: say something to the running turn."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import StoreFull
from tenure.sessions.closing import TURN_GRACE_S
from tenure.testing.clock import settle
from tenure.testing.gates import Gate

LOOK = {"call": {"name": "list", "arguments": {"path": "."}}}
TWO_STEPS = [[{"gate": "g"}, LOOK], {"text": "With that in mind."}, {"text": "Alone."}]


@pytest.mark.parametrize("steps", [TWO_STEPS])
async def test_it_goes_into_the_next_step_of_the_running_turn(rig, steps):
    session = await rig.session()
    turn = await rig.call("prompt.submit", session_id=session, text="begin")
    said = await rig.call("session.steer", session_id=session, text="only .py files")
    assert (said["status"], said["how"], said["text"]) == ("queued", "steered", "only .py files")
    rig.gateway.picker.script.gate("g").open()
    event = (await rig.client.until("message.steered", session)).payload
    assert event == {"turn_id": said["turn_id"], "into": turn["turn_id"], "text": "only .py files"}
    end = (await rig.client.until("message.complete", session)).payload
    assert end["turn_id"] == turn["turn_id"] and end["text"] == "With that in mind."
    roles = [row.message.role for row in await rig.gateway.store.history(session)]
    assert roles == ["user", "assistant", "tool", "user", "assistant"]
    rows = {r.id: (r.state, r.cause) for r in await rig.gateway.store.turns(session)}
    assert rows[said["turn_id"]] == ("completed", "steered")
    assert rig.live(session).queued == 0 and rig.live(session).status == "idle"


@pytest.mark.parametrize("steps", [[[{"gate": "g"}, {"text": "Done."}], {"text": "More."}]])
async def test_said_while_the_last_answer_is_written_it_keeps_the_turn_going(rig, steps):
    session = await rig.session()
    turn = await rig.call("prompt.submit", session_id=session, text="begin")
    await rig.call("prompt.submit", session_id=session, text="and that", when_busy="steer")
    rig.gateway.picker.script.gate("g").open()
    end = (await rig.client.until("message.complete", session)).payload
    assert (end["turn_id"], end["text"]) == (turn["turn_id"], "More.")


@pytest.mark.parametrize("steps", [TWO_STEPS])
async def test_an_interrupted_turn_leaves_it_to_run_by_itself(rig, steps):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="begin")
    said = await rig.call("session.steer", session_id=session, text="other")
    await rig.call("session.interrupt", session_id=session)
    ends = [(await rig.client.until("message.complete", session)).payload for _ in range(2)]
    assert [(e["state"], e["turn_id"] == said["turn_id"]) for e in ends] == [
        ("interrupted", False),
        ("completed", True),
    ]


@pytest.mark.parametrize("steps", [TWO_STEPS])
async def test_what_cannot_be_stored_in_the_turn_waits_again(rig, steps):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="begin")
    said = await rig.call("session.steer", session_id=session, text="other")
    # The tool's events and result go well; then the steered text is not stored.
    store = rig.gateway.store
    write = store.write

    def refuse(*ops):
        if any(getattr(op, "changes", {}).get("cause") == "steered" for op in ops):
            store.fail(StoreFull("No space is left."))
            store.write = write
        return write(*ops)

    store.write = refuse
    rig.gateway.picker.script.gate("g").open()
    ends = [(await rig.client.until("message.complete", session)).payload for _ in range(2)]
    assert [(e["state"], e["turn_id"] == said["turn_id"]) for e in ends] == [
        ("failed", False),
        ("completed", True),
    ]


async def test_without_a_running_turn_it_is_a_prompt(rig):
    session = await rig.session()
    said = await rig.call("session.steer", session_id=session, text="hello")
    assert said["how"] == "streaming"
    await rig.client.until("message.complete", session)
    await settle()


@pytest.mark.parametrize("steps", [TWO_STEPS])
async def test_one_that_cannot_be_stored_while_its_session_closes_has_an_end_too(rig, steps):
    session = await rig.session()
    turn = await rig.call("prompt.submit", session_id=session, text="begin")
    said = await rig.call("session.steer", session_id=session, text="other")
    store, disk = rig.gateway.store, Gate()
    write, steered = store.write, asyncio.Event()

    def slow(*ops):
        if any(getattr(op, "changes", {}).get("cause") == "steered" for op in ops):
            store.fail(StoreFull("No space is left."))
            store._gate, store.write = disk, write
            steered.set()
        return write(*ops)

    store.write = slow
    rig.gateway.picker.script.gate("g").open()
    await steered.wait()
    call = rig.call("session.close", session_id=session)
    closing = rig.gateway.root.spawn(call, name="close").value
    await settle(60)
    rig.gateway.ports.clock.advance(TURN_GRACE_S)  # it is left behind with its write
    await settle(60)
    disk.release()
    await closing
    closed = (await rig.client.until("session.closed", session)).payload
    ends = {
        e.payload["turn_id"]: e.payload["state"]
        for e in rig.client.seen
        if e.type == "message.complete"
    }
    assert ends == {turn["turn_id"]: "interrupted", said["turn_id"]: "refused"}
    assert closed["returned"] == ["other"]


async def test_guards(rig):
    await rig.refuses_strangers("session.steer", text="x")
    await rig.refuses_wrong_types("session.steer", session_id="x", text="x")
