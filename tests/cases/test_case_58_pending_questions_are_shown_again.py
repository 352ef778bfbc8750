"""Case 58: a question outlives its client; a restart settles it, and a turn that goes on asks anew."""

from __future__ import annotations

import pytest

from support.restarts import Restarts
from tenure.config import ApprovalsConfig, Config
from tenure.models.script import Script
from tenure.protocol.messages import EventParams
from tenure.sessions.recovery import GO_ON
from tenure.testing.clock import settle
from tenure.testing.gateway import open_test_gateway
from tenure.testing.tools import scripted_tool
from tenure.tools.base import Effect
from tenure.tools.registry import tools_for

CALL = {"call": {"name": "probe", "arguments": {"text": "effect"}}}
PATIENT = Config(approvals=ApprovalsConfig(timeout_s=1e9))


def writing():
    return scripted_tool(effect=Effect.WRITE)


async def asked(gateway):
    client, scope = await gateway.client()
    session = await client.ready_session()
    await client.call("prompt.submit", session_id=session, text="do it")
    return client, scope, session, (await client.until("approval.request", session)).payload


async def test_it_survives_the_client_and_any_time_alone(tmp_path):
    tool = writing()
    async with open_test_gateway(
        tmp_path, Script([CALL, {"text": "Done."}]), config=PATIENT, tools=lambda *_: (tool,)
    ) as gateway:
        _, scope, session, question = await asked(gateway)
        await scope.close()  # the client is gone
        for _ in range(20):
            gateway.ports.clock.advance(3_600.0)
            await settle()
        late, _ = await gateway.client()
        resumed = await late.call("session.resume", session_id=session)
        assert resumed["status"] == "waiting" and resumed["pending_approval"] == question
        assert resumed["pending_questions"] == [{"kind": "approval", **question}]
        shown: EventParams = await late.until("approval.request", session)
        assert shown.payload == question, "a client that reads events only is shown it, too"
        await late.call("approval.respond", session_id=session, choice="once")
        await late.until("message.complete", session)
        assert tool.effects == ["effect"]


async def test_a_cursor_brings_the_question_that_follows_another(tmp_path):
    """It is shown with a number of its own, so nobody who replays misses it."""
    one, two = (
        {"call": {"name": "clarify", "arguments": {"question": text}}} for text in ("one", "two")
    )
    script = Script([[one, two], {"text": "Done."}])
    async with open_test_gateway(tmp_path, script, tools=tools_for) as gateway:
        client, scope = await gateway.client()
        session = await client.ready_session()
        await client.call("prompt.submit", session_id=session, text="ask")
        first = (await client.until("clarify.request", session)).payload
        live = gateway.sessions.get(session)
        while len(live.questions.pending) < 2:
            await settle(1)
        cursor = {"epoch": 1, "seq": live.journal.last_seq}
        await scope.close()
        other, _ = await gateway.client()
        await other.call("clarify.respond", request_id=first["request_id"], answer="1")
        await settle()
        back, _ = await gateway.client()
        attached = await back.call("session.attach", session_id=session, cursor=cursor)
        assert not attached["replay"]["gap"]
        following = await back.until("clarify.request", session)
        assert following.payload["question"] == "two" and following.seq > cursor["seq"]
        assert [e.type for e in back.seen if e.type == "question.settled"]


@pytest.mark.parametrize("goes_on", [True, False])
async def test_a_restart_settles_it_and_a_turn_that_goes_on_asks_anew(tmp_path, goes_on):
    restarts = Restarts(tmp_path)
    tool = writing()
    async with restarts.boot(Script([CALL]), config=PATIENT, tools=lambda *_: (tool,)) as gateway:
        _, _, session, question = await asked(gateway)
        restarts.kill()
    rows = restarts.rows("SELECT id, kind, principal, decision FROM approvals")
    assert rows == [(question["request_id"], "approval", "owner", "")]
    recovery = replace_recovery(goes_on)
    tool = writing()
    script = Script([CALL, {"text": "Done."}])
    async with restarts.boot(script, config=recovery, tools=lambda *_: (tool,)) as gateway:
        client, _ = await gateway.client()
        resumed = await client.call("session.resume", session_id=session)
        (settled,) = restarts.rows(
            "SELECT decision FROM approvals WHERE id = ?", question["request_id"]
        )
        assert settled == ("void (crash)",)
        late = {"session_id": session, "choice": "once", "request_id": question["request_id"]}
        from tenure.errors import AlreadyDecided

        with pytest.raises(AlreadyDecided):
            await client.call("approval.respond", **late)
        if goes_on:
            anew = (await client.until("approval.request", session)).payload
            assert anew["request_id"] != question["request_id"]
            assert anew["command"] == question["command"]
            await client.call("approval.respond", session_id=session, choice="once")
            await client.until("message.complete", session)
            assert tool.effects == ["effect"]
        else:
            assert resumed["pending_questions"] == [] and resumed["status"] != "waiting"
            assert tool.effects == []
    turns = restarts.turns()
    assert turns[0] == ("do it", "interrupted", "crash")
    assert turns[1:] == ([(GO_ON, "completed", "stop")] if goes_on else [])


def replace_recovery(goes_on: bool) -> Config:
    from msgspec.structs import replace as changed

    return changed(PATIENT, recovery=changed(PATIENT.recovery, continue_turns=goes_on))


async def test_a_close_settles_it(tmp_path):
    tool = writing()
    async with open_test_gateway(
        tmp_path, Script([CALL]), config=PATIENT, tools=lambda *_: (tool,)
    ) as gateway:
        client, _, session, question = await asked(gateway)
        await client.call("session.close", session_id=session)
        (row,) = await gateway.store.questions(session, decision="void (turn ended)")
        assert row.id == question["request_id"] and tool.effects == []
        resumed = await client.call("session.resume", session_id=session)
        assert resumed["pending_questions"] == []
