"""clarify.respond: the agent asks, a person answers, the answer goes on."""

from __future__ import annotations

import pytest

from tenure.errors import AlreadyDecided, TooLarge
from tenure.testing.clock import settle
from tenure.tools.registry import CLARIFY_PAUSE_S


def ask(question="Which one?", *choices):
    return {"call": {"name": "clarify", "arguments": {"question": question, "choices": [*choices]}}}


@pytest.fixture
def steps():
    return [ask("Which one?", "red", "blue"), {"text": "Fine."}]


async def asked(rig, **params):
    session = await rig.session(**params)
    await rig.call("prompt.submit", session_id=session, text="paint it")
    return session, (await rig.client.until("clarify.request", session)).payload


def results(rig, session):
    return [i.message.text for i in rig.live(session).journal.items if i.message.role == "tool"]


async def test_the_answer_is_what_the_model_reads(rig):
    session, question = await asked(rig)
    assert question["question"] == "Which one?" and question["choices"] == ["red", "blue"]
    assert rig.live(session).status == "waiting"
    answered = await rig.call("clarify.respond", request_id=question["request_id"], answer="green")
    assert answered == {"status": "ok"}
    settled = (await rig.client.until("question.settled", session)).payload
    assert settled == {
        "request_id": question["request_id"], "kind": "clarify", "decision": "answered",
    }  # fmt: skip
    await settle()
    rig.gateway.ports.clock.advance(CLARIFY_PAUSE_S)
    await rig.client.until("message.complete", session)
    assert results(rig, session) == ["green"]
    with pytest.raises(AlreadyDecided, match="already decided"):
        await rig.call("clarify.respond", request_id=question["request_id"], answer="red")
    assert results(rig, session) == ["green"]


async def test_no_answer_is_told_as_such(rig):
    session, question = await asked(rig)
    await rig.call("clarify.respond", request_id=question["request_id"], answer="")
    await rig.client.until("message.complete", session)
    assert results(rig, session) == [
        "Nobody answered. Decide yourself, and say what you have assumed."
    ]


async def test_where_nobody_can_be_asked_it_goes_on_at_once(rig):
    session = await rig.session(interactive=False)
    await rig.turn(session, "paint it")
    assert results(rig, session)[0].startswith("Nobody answered")


async def test_an_interrupt_voids_it(rig):
    session, question = await asked(rig)
    await rig.call("session.interrupt", session_id=session)
    gone = (await rig.client.until("clarify.expire", session)).payload
    assert gone == {"request_id": question["request_id"]}
    with pytest.raises(AlreadyDecided):
        await rig.call("clarify.respond", request_id=question["request_id"], answer="red")
    (row,) = await rig.gateway.store.questions(session, decision="void (turn ended)")
    assert (row.kind, row.principal, row.turn_id) == ("clarify", "owner", question["turn_id"])


async def test_guards(rig):
    _, question = await asked(rig)
    with pytest.raises(TooLarge):
        await rig.call("clarify.respond", request_id=question["request_id"], answer="x" * 40_000)
    for method in ("secret.respond", "sudo.respond"):  # of another kind
        assert await rig.call(method, request_id=question["request_id"]) == {"status": "expired"}
    with pytest.raises(AlreadyDecided):
        await rig.call("clarify.respond", request_id="ask_0")
    await rig.refuses_wrong_types("clarify.respond", request_id="x")
