"""A session between its steps: builds that end otherwise, rest, what counts as use."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest

from tenure.agent.ports import TurnEnd
from tenure.errors import ModelError, SessionClosing, StoreFull
from tenure.models.script import Script
from tenure.protocol.messages import EventParams
from tenure.sessions.actor import INTERRUPT_GRACE_S
from tenure.sessions.prompts import take_steered
from tenure.sessions.turns import LiveTurn
from tenure.store.base import FenceTurn
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.store import MemoryStore

NO_KEY = ModelError("No key.", provider="scripted")
GATED = [{"gate": "g"}, {"text": "One."}]


@asynccontextmanager
async def gateway(tmp_path, *steps, **more):
    async with open_test_gateway(tmp_path, Script(list(steps)), **more) as gw:
        yield gw


async def ready(gw):
    client, _ = await gw.client()
    sid = await client.ready_session()
    return client, gw.sessions.get(sid)


@asynccontextmanager
async def building(gw):
    """A session whose build waits for its model; ends with the build let go."""
    gate = gw.picker.gates["model"] = Gate()
    client, _ = await gw.client()
    sid = (await client.call("session.create"))["session_id"]
    await gate.wait_parked()
    try:
        yield client, gw.sessions.get(sid)
    finally:
        gate.release()


# --- building -----------------------------------------------------------------------------------


async def test_what_waits_for_a_build_runs_after_it_and_ends_with_its_failure(tmp_path):
    for failure, state in ((None, "completed"), (NO_KEY, "failed")):
        async with gateway(tmp_path, {"text": "One."}) as gw:
            async with building(gw) as (client, session):
                if failure is not None:
                    gw.picker.failures["model"] = failure
                await client.call("prompt.submit", session_id=session.id, text="early")
                assert session.working, "it waits"
            done = await client.until("message.complete")
            assert done.payload["state"] == state
            (turn,) = await gw.store.turns(session.id)
            assert turn.state == state


async def test_a_build_that_breaks_is_told_and_can_be_tried_again(tmp_path, caplog):
    async with gateway(tmp_path, {"text": "One."}) as gw:
        gw.picker.failures["model"] = ZeroDivisionError("a fault of ours")
        client, _ = await gw.client()
        sid = (await client.call("session.create"))["session_id"]
        told = await client.until("error", sid)
        assert "fault" in caplog.text and told.payload["code"]
        gw.picker.failures.clear()
        await client.call("prompt.submit", session_id=sid, text="again")
        assert (await client.until("message.complete")).payload["state"] == "completed"


async def test_who_waits_for_a_build_does_not_outwait_the_session(tmp_path):
    async with gateway(tmp_path) as gw, building(gw) as (_, session):
        waiting = gw.root.spawn(session.wait_built(), name="wait").value
        await settle()
        gw.sessions.close_nowait(session, "closed", "user")
        gw.picker.gates["model"].release()
        await asyncio.shield(session.closing)
        await settle()
        assert waiting.done()


async def test_a_build_that_fails_under_a_claim_leaves_the_rest_to_the_closing(tmp_path):
    async with gateway(tmp_path) as gw, building(gw) as (client, session):
        await client.call("prompt.submit", session_id=session.id, text="early")
        gw.picker.failures["model"] = NO_KEY
        gw.sessions.close_nowait(session, "stopped", "shutdown")
        gw.picker.gates["model"].release()
        await asyncio.shield(session.closing)
        (turn,) = await gw.store.turns(session.id)
        assert turn.state == "queued", "it runs after the next start"


# --- rest ---------------------------------------------------------------------------------------


async def test_only_an_idle_session_whose_history_is_stored_is_laid_to_rest(tmp_path):
    async with gateway(tmp_path, GATED, {"text": "Two."}, store=MemoryStore()) as gw:
        client, session = await ready(gw)
        await client.call("prompt.submit", session_id=session.id, text="hi")
        assert not session.rest(), "it runs"
        gw.picker.script.gate("g").open()
        await client.until("message.complete")
        gate = gw.store._gate = Gate()
        session.journal.record_nowait([], [("session.title", {})])
        await gate.wait_parked()
        rested = session.rest()
        gw.store._gate = None
        gate.release()
        assert not rested, "not all is stored"
        await session.journal.caught_up()
        assert session.rest()
        await settle()
        assert gw.picker.opened == [], "the agent is gone"
        await client.call("prompt.submit", session_id=session.id, text="again")
        assert not session.unbuilt
        assert (await client.until("message.complete")).payload["text"] == "Two."
        session.scope.claim("a test")
        assert not session.rest()


async def test_a_prompt_and_the_end_of_its_turn_are_use(tmp_path):
    async with gateway(tmp_path, GATED) as gw:
        client, session = await ready(gw)
        clock, before = gw.ports.clock, session.used_at
        clock.advance(5)
        await client.call("prompt.submit", session_id=session.id, text="hi")
        assert session.used_at == before + 5
        clock.advance(5)
        gw.picker.script.gate("g").open()
        await client.until("message.complete")
        assert session.used_at == before + 10


async def test_a_turn_that_ends_looks_at_the_memory_of_histories(tmp_path):
    async with gateway(tmp_path, {"text": "One."}) as gw:
        client, session = await ready(gw)
        looks = []
        gw.ports.sessions.ports.memory.histories.relieve = lambda: looks.append(session.current)
        await client.call("prompt.submit", session_id=session.id, text="hi")
        await client.until("message.complete")
        assert looks == [None]


# --- turns --------------------------------------------------------------------------------------


async def test_what_breaks_in_a_turn_ends_that_turn(tmp_path, monkeypatch, caplog):
    async def breaks(*_):
        raise ZeroDivisionError("a fault of ours")

    async with gateway(tmp_path, {"text": "Two."}) as gw:
        client, session = await ready(gw)
        with monkeypatch.context() as patch:
            patch.setattr("tenure.sessions.actor.run", breaks)
            await client.call("prompt.submit", session_id=session.id, text="hi")
            done = await client.until("message.complete")
        assert (done.payload["state"], done.payload["cause"]) == ("failed", "internal")
        assert "fault" in caplog.text
        await client.call("prompt.submit", session_id=session.id, text="again")
        assert (await client.until("message.complete")).payload["text"] == "Two."


async def test_a_turn_ends_after_what_it_holds(tmp_path):
    async with gateway(tmp_path, GATED) as gw:
        client, session = await ready(gw)
        await client.call("prompt.submit", session_id=session.id, text="hi")
        gate, turn = Gate(), session.current
        turn.scope.own("thing", "slow", lambda _: gate.park())
        gw.picker.script.gate("g").open()
        await gate.wait_parked()
        await settle()
        over = turn.over.is_set()
        gate.release()
        assert not over
        assert turn.scope.parent is session.scope
        await client.until("message.complete")


async def test_the_next_prompt_runs_when_the_turn_before_is_over(tmp_path):
    async with gateway(tmp_path, GATED, [{"gate": "h"}, {"text": "Two."}]) as gw:
        client, session = await ready(gw)
        await client.call("prompt.submit", session_id=session.id, text="one")
        await client.call("prompt.submit", session_id=session.id, text="two")
        first = session.current
        session.put_back([])  # looks at the queue
        assert (session.current, session.queued) == (first, 1)
        gw.picker.script.gate("g").open()
        await client.until("message.complete")
        assert session.current.prompt == "two" and not first.recorder.live
        session._leave(first)  # whatever is late of the first turn
        assert session.current.prompt == "two"
        gw.picker.script.gate("h").open()
        await client.until("message.complete")


async def test_nothing_that_waits_begins_under_a_claim(tmp_path):
    async with gateway(tmp_path, GATED) as gw:
        client, session = await ready(gw)
        await client.call("prompt.submit", session_id=session.id, text="one")
        await client.call("prompt.submit", session_id=session.id, text="two")
        session.scope.claim("a test")
        try:
            session._finish(session.current, TurnEnd("completed", "stop"))
            assert (session.current, session.queued) == (None, 1)
        finally:
            session.current = None
        with pytest.raises(SessionClosing):
            session.check_open()


async def test_a_turn_that_meets_the_claim_was_ended_by_the_gateway(tmp_path):
    async with gateway(tmp_path, GATED) as gw:
        client, session = await ready(gw)
        await client.call("prompt.submit", session_id=session.id, text="one")
        turn = session.current
        session.scope.claim("everything ends")
        await turn.task.release()
        await session.journal.caught_up()
        (row,) = await gw.store.turns(session.id)
        assert (row.state, row.cause) == ("interrupted", "shutdown")


async def test_a_turn_that_ignores_its_interrupt_is_left_behind_after_a_while(
    tmp_path, monkeypatch
):
    goes_on = Gate()

    async def ignores(*_):
        with suppress(asyncio.CancelledError):
            await goes_on.park()
        await goes_on.park()
        return TurnEnd("completed", "stop")

    async with gateway(tmp_path, {"text": "Two."}) as gw:
        client, session = await ready(gw)
        with monkeypatch.context() as patch:
            patch.setattr("tenure.sessions.actor.run", ignores)
            await client.call("prompt.submit", session_id=session.id, text="one")
            await goes_on.wait_parked()
        turn = session.current
        assert session.interrupt("user")
        await settle()
        assert session.current is turn
        gw.ports.clock.advance(INTERRUPT_GRACE_S)
        await settle()
        left = session.current is None
        goes_on.release()
        assert left
        await settle()
        (row,) = await gw.store.turns(session.id)
        assert (row.state, row.cause) == ("interrupted", "user")


async def test_an_undo_is_no_turn_in_the_store(tmp_path):
    async with gateway(tmp_path, {"text": "One."}) as gw:
        client, session = await ready(gw)
        await client.call("prompt.submit", session_id=session.id, text="one")
        await client.until("message.complete")
        await client.call("session.undo", session_id=session.id)
        fenced = {op.id for ops in gw.store.writes for op in ops if isinstance(op, FenceTurn)}
        assert len(fenced) == 1
        assert len(await gw.store.turns(session.id)) == 1


async def test_what_could_not_be_steered_runs_unless_it_has_ended(tmp_path):
    async with gateway(tmp_path, {"text": "Two."}) as gw:
        _, session = await ready(gw)
        waiting, ended = (session.new_turn(text, "", "") for text in ("waits", "has ended"))
        ended.ended = True
        session.put_back([ended])
        before, session.current = session.current, None
        assert before is None and session.queued == 0
        session.put_back([waiting])
        assert session.current is waiting
        await session.current.over.wait()


async def test_who_comes_late_sees_what_is_not_in_history_yet(tmp_path):
    async with gateway(tmp_path, GATED) as gw:
        client, session = await ready(gw)
        await client.call("prompt.submit", session_id=session.id, text="hi")
        turn = session.current

        def say(kind: str, text: str, turn_id: str) -> str:
            session._publish(EventParams(kind, session.id, {"text": text}), turn_id)
            return session.inflight()["assistant"]

        assert say("message.delta", "One ", turn.id) == "One "
        assert say("message.delta", "late ", "turn_before") == "One "
        assert say("message.delta", "two.", turn.id) == "One two."
        assert say("message.interim", "One two.", turn.id) == ""
        gw.picker.script.gate("g").open()
        await client.until("message.complete")


async def test_a_refused_prompt_leaves_the_queue_the_session_and_history(tmp_path):
    async with gateway(tmp_path, GATED) as gw:
        client, session = await ready(gw)
        await client.call("prompt.submit", session_id=session.id, text="one")
        waiting = LiveTurn("turn_2", 2, "two", 0.0)
        session.queue.append(waiting)
        session.refuse(waiting, NO_KEY)
        assert waiting.ended and waiting.over.is_set() and session.queued == 0
        running = session.current
        session.refuse(running, NO_KEY)
        assert session.current is None
        assert [row for row in session.journal.items if row.turn_id == running.id] == []
        await settle()
        assert running.task.state.value == "released", "it does not run on"
        assert not running.recorder.live


async def test_who_leaves_while_its_prompt_is_stored_leaves_it_there(tmp_path):
    async with gateway(tmp_path, {"text": "One."}, store=MemoryStore()) as gw:
        client, session = await ready(gw)
        gate = gw.store._gate = Gate()
        asking = asyncio.ensure_future(session.submit("hi"))
        await gate.wait_parked()
        turn = session.current
        asking.cancel()
        await settle()
        ended, gw.store._gate = turn.ended, None
        gate.release()
        assert not ended
        done = await client.until("message.complete")
        assert done.payload["state"] == "completed"


async def test_a_prompt_that_could_not_be_stored_does_not_wait(tmp_path):
    async with gateway(tmp_path, GATED) as gw:
        client, session = await ready(gw)
        await client.call("prompt.submit", session_id=session.id, text="runs")
        gw.store.fail(StoreFull("No space."))
        with pytest.raises(StoreFull):
            await session.submit("lost")
        queued = session.queued
        gw.picker.script.gate("g").open()
        await client.until("message.complete")
        assert queued == 0


async def test_a_prompt_that_could_not_be_steered_waits_again(tmp_path):
    async with gateway(tmp_path, GATED, {"text": "Two."}) as gw:
        client, session = await ready(gw)
        await client.call("prompt.submit", session_id=session.id, text="runs")
        await client.call("session.steer", session_id=session.id, text="more")
        (steered,) = session.queue
        gw.store.fail(StoreFull("No space."))
        with pytest.raises(StoreFull):
            await take_steered(session, session.current)
        waiting = list(session.queue)
        gw.picker.script.gate("g").open()
        await session.journal.caught_up()
        assert waiting == [steered] and not steered.steered
        assert (await client.until("message.complete")).payload["text"] == "One."
        assert (await client.until("message.complete")).payload["text"] == "Two."


# --- what nobody asked for, and what nobody waits for -----------------------------------------------


async def test_a_turn_that_is_cut_from_within_is_not_told_as_a_stop(tmp_path):
    async with gateway(tmp_path, *GATED) as gw:
        client, session = await ready(gw)
        await session.submit("runs")
        await settle()
        session.current.task.value.cancel()
        done = await client.until("message.complete", session.id)
        assert (done.payload["state"], done.payload["cause"]) == ("interrupted", "user")
        assert done.payload["usage"]["model"] == session.agent.model.ref


async def test_a_session_says_that_it_is_idle_again(tmp_path):
    async with gateway(tmp_path, {"text": "One."}) as gw:
        client, session = await ready(gw)
        await session.submit("runs")
        await client.until("message.complete", session.id)
        told = await client.until("session.info", session.id)
        assert told.payload["status"] == session.status == "idle"


async def test_another_model_reads_no_history_again(tmp_path):
    async with gateway(tmp_path, {"text": "One."}) as gw:
        client, session = await ready(gw)
        await session.submit("runs")
        await client.until("message.complete", session.id)
        before, read = list(session.journal.items), []

        async def history(session_id: str):
            read.append(session_id)

        gw.store.history = history
        session.begin_build("scripted:other")
        await session.wait_built()
        assert (read, session.journal.items) == ([], before)


async def test_a_prompt_that_is_not_stored_does_not_run_though_its_sender_has_left(tmp_path):
    async with gateway(tmp_path, *GATED) as gw:
        _, session = await ready(gw)
        gw.store._gate = slow = Gate()
        gw.store.fail(StoreFull("No space."))
        sending = asyncio.create_task(session.submit("runs"))
        await slow.wait_parked()
        sending.cancel()
        await settle()
        assert session.current is not None
        slow.release()
        await settle()
        assert (session.current, list(session.journal.items)) == (None, [])
