"""Case 57: one decision binds to one question; a second answer is told that it comes too late."""

from __future__ import annotations

import asyncio

import pytest

from tenure.agent.ports import Question
from tenure.config import ApprovalRule
from tenure.errors import AlreadyDecided, StoreError, Unauthorized
from tenure.models.script import Script
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.store import MemoryStore
from tenure.testing.tools import scripted_tool
from tenure.tools.base import Effect
from tenure.tools.registry import CLARIFY_PAUSE_S, tools_for


def ask(text):
    return {"call": {"name": "clarify", "arguments": {"question": text}}}


def question(subject):
    grant = ApprovalRule(decision="allow", tool="shell", command=subject)
    return Question("c1", "shell", Effect.EXECUTE, subject, "/", "A test.", grants=(grant,))


async def until_open(session, count):
    for _ in range(500):
        if len(session.questions.pending) == count:
            return session.questions.pending
        await settle(1)
    raise AssertionError(f"{len(session.questions.pending)} questions are open, not {count}")


async def test_three_at_once_are_answered_by_name(tmp_path):
    script = Script([[ask("one"), ask("two"), ask("three")], {"text": "Done."}])
    async with open_test_gateway(tmp_path, script, tools=tools_for) as gateway:
        client, _ = await gateway.client()
        session_id = await client.ready_session()
        await client.call("prompt.submit", session_id=session_id, text="ask")
        session = gateway.sessions.get(session_id)
        names = {q["question"]: q["request_id"] for q in await until_open(session, 3)}
        await client.call("clarify.respond", request_id=names["three"], answer="3!")
        await client.call("clarify.respond", request_id=names["one"], answer="1!")
        (left,) = session.questions.pending
        assert left["question"] == "two" and session.current is not None
        with pytest.raises(AlreadyDecided, match="already decided"):
            await client.call("clarify.respond", request_id=names["three"], answer="4!")
        late, _ = await gateway.client()
        resumed = await late.call("session.resume", session_id=session_id)
        assert [q["request_id"] for q in resumed["pending_questions"]] == [names["two"]]
        await client.call("clarify.respond", request_id=names["two"], answer="2!")
        await settle()
        gateway.ports.clock.advance(CLARIFY_PAUSE_S)
        await client.until("message.complete", session_id)
        given = [i.message.text for i in session.journal.items if i.message.role == "tool"]
        assert given == ["1!", "2!", "3!"]
        settled = [e.payload for e in client.seen if e.type == "question.settled"]
        assert sorted(s["request_id"] for s in settled) == sorted(names.values())


async def approvals_of(gateway, gate, count):
    """A session whose turn waits for approvals, all at once; the session and its decisions."""
    client, _ = await gateway.client()
    session_id = await client.ready_session()
    await client.call("prompt.submit", session_id=session_id, text="work")
    await gate.wait_parked()
    session = gateway.sessions.get(session_id)
    asked = [
        session.scope.spawn(
            session.questions.ask(question(f"do {n}"), session.current.id), name=f"ask {n}"
        ).value
        for n in range(1, count + 1)
    ]
    await until_open(session, count)
    await client.until("approval.request", session_id)
    return client, session, asked


@pytest.fixture
async def parked(tmp_path):
    gate, store = Gate(), MemoryStore()
    tool = scripted_tool(gate=gate)
    script = Script([{"call": {"name": "probe", "arguments": {}}}, {"text": "Done."}])
    async with open_test_gateway(
        tmp_path, script, store=store, tools=lambda *_: (tool,)
    ) as gateway:
        yield gateway, gate, store
        gate.release()


@pytest.mark.timeout(20)  # without its guard it would hang
async def test_allow_on_the_third_and_deny_on_the_first(parked):
    gateway, gate, _ = parked
    client, session, asked = await approvals_of(gateway, gate, 3)
    first, second, third = (q["request_id"] for q in session.questions.pending)
    call = {"session_id": session.id}
    await client.call("approval.respond", **call, choice="session", request_id=third)
    await client.call("approval.respond", **call, choice="deny", request_id=first)
    assert [(await asked[n]).choice for n in (2, 0)] == ["session", "deny"]
    assert not asked[1].done()
    assert [q["request_id"] for q in session.questions.pending] == [second]
    assert [rule.command for rule in session.questions.policy().grants] == ["do 3"]
    for late in (third, first):
        with pytest.raises(AlreadyDecided, match="already decided"):
            await client.call("approval.respond", **call, choice="once", request_id=late)
    # Without a name it means the one on show, which is the second now.
    shown = [e for e in client.seen if e.type == "approval.request"][-1:]
    assert not shown or shown[0].payload["request_id"] != third
    assert await client.call("approval.respond", **call, choice="once") == {"resolved": 1}
    assert (await asked[1]).choice == "once"


async def test_of_two_answers_at_one_moment_one_counts(parked):
    gateway, gate, store = parked
    client, session, (asked,) = await approvals_of(gateway, gate, 1)
    other, _ = await gateway.client()
    (name,) = (q["request_id"] for q in session.questions.pending)
    disk = store._gate = Gate()
    answers = [
        asyncio.get_running_loop().create_task(
            who.call("approval.respond", session_id=session.id, choice=choice, request_id=name)
        )
        for who, choice in ((client, "deny"), (other, "always"))
    ]
    await disk.wait_parked()
    await settle()
    disk.release()
    assert await answers[0] == {"resolved": 1}
    with pytest.raises(AlreadyDecided, match="already decided"):
        await answers[1]
    assert (await asked).choice == "deny" and session.ports.grants.rules == ()
    (row,) = await store.questions(session.id, decision="deny")
    assert row.id == name
    await client.call("session.usage", session_id=session.id)
    await client.until("question.settled", session.id)
    gate.release()
    await client.until("message.complete", session.id)
    assert [e.type for e in client.seen].count("question.settled") == 1


async def test_an_answer_that_could_not_be_stored_leaves_it_open(parked):
    gateway, gate, store = parked
    client, session, (asked,) = await approvals_of(gateway, gate, 1)
    store.fail(StoreError("a test"))
    with pytest.raises(StoreError, match="a test"):
        await client.call("approval.respond", session_id=session.id, choice="once")
    assert not asked.done() and len(session.questions.pending) == 1
    await client.call("approval.respond", session_id=session.id, choice="deny")
    assert (await asked).choice == "deny"


async def test_only_whom_it_asks_may_answer(parked):
    gateway, gate, _ = parked
    _, session, (asked,) = await approvals_of(gateway, gate, 1)
    with pytest.raises(Unauthorized, match="Only owner"):
        await session.questions.respond("", "once", everything=False, principal="somebody else")
    assert not asked.done() and len(session.questions.pending) == 1


async def test_an_interrupt_while_the_answer_is_being_stored_settles_it_once(parked):
    gateway, gate, store = parked
    client, session, (asked,) = await approvals_of(gateway, gate, 1)
    disk = store._gate = Gate()
    answer = asyncio.get_running_loop().create_task(
        client.call("approval.respond", session_id=session.id, choice="deny")
    )
    await disk.wait_parked()
    asked.cancel()
    await settle()
    disk.release()
    assert await answer == {"resolved": 1}
    gate.release()
    await client.until("message.complete", session.id)
    told = [e.type for e in client.seen if e.type in {"question.settled", "approval.expire"}]
    assert told == ["question.settled"]
    assert [r.decision for r in await store.questions(session.id, decision="deny")] == ["deny"]
