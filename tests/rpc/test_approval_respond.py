"""approval.respond: answer a question."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import AlreadyDecided, BadValue

CALL = {"call": {"name": "shell", "arguments": {"command": "touch made.txt"}}}


@pytest.fixture
def steps():
    return [
        [CALL, {"call": {"name": "shell", "arguments": {"command": "touch other.txt"}}}],
        {"text": "Done."},
    ]


async def asked(rig):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="make two files")
    return session, (await rig.client.until("approval.request", session)).payload


async def test_one_at_a_time_without_an_id_means_the_one_shown(rig, tmp_path):
    session, question = await asked(rig)
    assert question["command"] == "touch made.txt" and question["cwd"] == str(tmp_path)
    assert question["choices"] == ["once", "session", "always", "deny"]
    assert await rig.call("approval.respond", session_id=session, choice="once") == {"resolved": 1}
    second = (await rig.client.until("approval.request", session)).payload
    assert second["command"] == "touch other.txt" and second["request_id"] != question["request_id"]
    await rig.call(
        "approval.respond", session_id=session, choice="deny", request_id=second["request_id"]
    )
    done = (await rig.client.until("message.complete", session)).payload
    assert (done["state"], done["denied"]) == ("completed", 1)
    assert (tmp_path / "made.txt").exists() and not (tmp_path / "other.txt").exists()


async def test_all_at_once(rig, tmp_path):
    session, _ = await asked(rig)
    while (await rig.call("approval.respond", session_id=session, choice="once", all=True))[
        "resolved"
    ]:
        pass
    await rig.client.until("message.complete", session)
    assert (tmp_path / "made.txt").exists() and (tmp_path / "other.txt").exists()


async def test_of_two_who_answer_all_at_one_moment_one_answers(rig):
    """What somebody else has just decided is not an error to whoever says yes to all that waits."""
    session, _ = await asked(rig)
    respond, spawn = rig.live(session).questions.respond, rig.gateway.root.spawn
    answers = [spawn(respond("", "deny", everything=True), name="all").value for _ in "ab"]
    await asyncio.wait(answers)
    assert [answer.result() for answer in answers] == [1, 0]


async def test_an_interrupt_voids_the_question_and_a_late_answer_is_told(rig, tmp_path):
    session, question = await asked(rig)
    await rig.call("session.interrupt", session_id=session)
    gone = (await rig.client.until("approval.expire", session)).payload
    assert gone == {"request_id": question["request_id"]}
    with pytest.raises(AlreadyDecided, match="not open any more"):
        await rig.call(
            "approval.respond", session_id=session, choice="once", request_id=question["request_id"]
        )
    assert await rig.call("approval.respond", session_id=session, choice="once") == {"resolved": 0}
    assert not (tmp_path / "made.txt").exists()


async def test_guards(rig):
    session, _ = await asked(rig)
    with pytest.raises(BadValue, match="use once, session, always or deny"):
        await rig.call("approval.respond", session_id=session, choice="maybe")
    await rig.refuses_strangers("approval.respond", choice="once")
    await rig.refuses_wrong_types("approval.respond", session_id="x", choice="once")


async def test_a_refusal_repeats_no_long_answer(rig):
    session = await rig.session()
    with pytest.raises(BadValue) as told:
        await rig.call("approval.respond", session_id=session, choice="x" * 100_000)
    assert len(str(told.value)) < 200
