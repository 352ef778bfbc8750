"""secret.respond: what is typed reaches the command that asks, and nothing else."""

from __future__ import annotations

import pytest

from tenure.errors import ReadOnly

SECRET = "hunter2-correct-horse"
COMMAND = 'printf "%s" "$DEPLOY_KEY" > got.txt; echo "key: $DEPLOY_KEY."; printf hunter2-cor; sleep 0.1; printf "rect-horse\\n"'


@pytest.fixture
def steps():
    arguments = {"command": COMMAND, "secrets": ["DEPLOY_KEY"]}
    return [{"call": {"name": "shell", "arguments": arguments}}, {"text": "Deployed."}]


async def asked(rig):
    session = await rig.session(auto_approve=True)
    await rig.call("prompt.submit", session_id=session, text="deploy")
    return session, (await rig.client.until("secret.request", session)).payload


def results(rig, session):
    return [i.message.text for i in rig.live(session).journal.items if i.message.role == "tool"]


async def test_it_goes_into_the_asking_command_only(rig, tmp_path, caplog):
    session, question = await asked(rig)
    assert question["env_var"] == "DEPLOY_KEY" and "got.txt" in question["prompt"]
    answered = await rig.call("secret.respond", request_id=question["request_id"], value=SECRET)
    assert answered == {"status": "ok"}
    await rig.client.until("message.complete", session)
    assert (tmp_path / "got.txt").read_text() == SECRET
    assert results(rig, session) == ["key: ***.\n***\n"], (
        "blanked, also where it came in two pieces"
    )
    store = rig.gateway.store
    assert SECRET not in repr(store.writes) and SECRET not in caplog.text
    assert SECRET not in repr([(e.type, e.payload) for e in rig.client.seen])
    (row,) = await store.questions(session, decision="answered")
    assert (row.kind, row.question["env_var"]) == ("secret", "DEPLOY_KEY")
    again = await rig.call("secret.respond", request_id=question["request_id"], value="other")
    assert again == {"status": "expired"}


async def test_refused_the_command_does_not_run(rig, tmp_path):
    session, question = await asked(rig)
    await rig.call("secret.respond", request_id=question["request_id"], value="")
    await rig.client.until("message.complete", session)
    assert results(rig, session) == ["The command was not run: nobody gave DEPLOY_KEY."]
    assert not (tmp_path / "got.txt").exists()


async def test_where_nobody_can_be_asked_the_command_does_not_run(rig, tmp_path):
    session = await rig.session(auto_approve=True, interactive=False)
    await rig.turn(session, "deploy")
    assert not (tmp_path / "got.txt").exists()


async def test_who_only_watches_sees_the_question_and_may_not_answer(rig, tmp_path):
    session, question = await asked(rig)
    watcher, _ = await rig.gateway.client()
    seen = await watcher.call("session.resume", session_id=session, role="viewer")
    assert seen["pending_questions"][0]["request_id"] == question["request_id"]
    assert seen["pending_approval"] is None
    for method in ("secret.respond", "clarify.respond"):
        with pytest.raises(ReadOnly):
            await watcher.call(method, request_id=question["request_id"])
    assert rig.live(session).questions.waits_for(question["request_id"])


async def test_guards(rig):
    assert await rig.call("secret.respond", request_id="ask_0", value="x") == {"status": "expired"}
    await rig.refuses_wrong_types("secret.respond", request_id="x")
