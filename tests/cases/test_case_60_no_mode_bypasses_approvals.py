"""Case 60: in every mode what is dangerous waits for a decision; whoever lets it pass is named."""

from __future__ import annotations

import json
import subprocess

import pytest

from support.commands import Place
from support.served import serving
from tenure.config import ApprovalRule, ApprovalsConfig, Config
from tenure.models.script import Script
from tenure.testing.gateway import open_test_gateway
from tenure.tools.registry import tools_for

CALL = {"call": {"name": "shell", "arguments": {"command": "touch made.txt"}}}
TEMPTING = dict.fromkeys(
    ("TENURE_YES", "TENURE_YOLO", "TENURE_AUTO_APPROVE", "YOLO", "YES", "CI"), "1"
)


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def ref(place) -> str:
    return place.script(CALL, {"text": "Done."})


def made(place) -> bool:
    return (place.work / "made.txt").exists()


# --- one command --------------------------------------------------------------------------------


def test_one_command_denies_what_nobody_can_be_asked(place, ref):
    ran = place.run("run", "--model", ref, "go", env=TEMPTING)
    assert ran.code == 3 and not made(place), ran.err
    assert "--yes" in ran.err and "let pass" not in ran.err


@pytest.mark.parametrize(
    ("file", "text", "code"),
    [
        ("config.toml", "[[approvals.rules]]\ndecision = 'allowed'\n", 2),
        ("config.toml", "approvals = 'off'\n", 2),
        ("grants.json", '[{"decision":"allow","tool":', 2),
        ("grants.json", '[{"decision":"maybe","tool":"shell"}]', 2),
    ],
)
def test_a_policy_that_cannot_be_read_runs_nothing(place, ref, file, text, code):
    place.home.mkdir(mode=0o700, exist_ok=True)
    (place.home / file).write_text(text)
    ran = place.run("run", "--model", ref, "--yes", "go")
    assert ran.code == code and file in ran.err and not made(place), ran.err


def test_yes_is_said_and_stands_in_the_turns_record(place, ref):
    ran = place.run("run", "--yes", "--json", "--model", ref, "go")
    assert ran.code == 0 and made(place)
    (start,) = [line for line in ran.lines() if line.get("event") == "message.start"]
    assert start["bypass"] == "session.create"
    (place.work / "made.txt").unlink()
    said = place.run("run", "--yes", "--model", ref, "go")
    assert "approvals are let pass (--yes)" in said.err


def test_a_rule_that_denies_beats_yes(place, ref):
    place.config("[[approvals.rules]]\ndecision = 'deny'\ntool = 'shell'\n")
    ran = place.run("run", "--yes", "--model", ref, "go")
    assert ran.code == 3 and not made(place)


def test_plan_mode_beats_yes_boxes_and_rules_that_allow(place, ref):
    place.config("[[approvals.rules]]\ndecision = 'allow'\ntool = 'shell'\n")
    ran = place.run("run", "--yes", "--plan", "--model", ref, "go")
    assert ran.code == 3 and not made(place), ran.err


# --- served -------------------------------------------------------------------------------------


async def test_over_the_socket_it_is_asked(place, ref):
    place.extra.update(TEMPTING)
    with serving(place) as served:
        async with served.client() as client:
            session = await client.ready_session(cwd=str(place.work), model=ref)
            await client.call("prompt.submit", session_id=session, text="go")
            await client.until("approval.request", session)
            assert not made(place)
            await client.call("approval.respond", session_id=session, choice="deny")
            done = await client.until("message.complete", session)
            assert done.payload["denied"] == 1 and not made(place)


def test_over_stdio_it_is_asked(place, ref):
    process = place.popen("serve", "--stdio", "--model", ref, stdin=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None

    def send(number, method, **params):
        frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(frame).encode() + b"\n")
        process.stdin.flush()

    def until(wanted):
        while line := process.stdout.readline():
            frame = json.loads(line)
            if wanted(frame):
                return frame
        raise AssertionError("it ended")

    send(1, "session.create", cwd=str(place.work))
    session = until(lambda f: f.get("id") == 1)["result"]["session_id"]
    send(2, "prompt.submit", session_id=session, text="go")
    until(lambda f: f.get("params", {}).get("type") == "approval.request")
    assert not made(place)
    process.stdin.close()
    process.wait(30)
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.close()
    assert not made(place), "a client that leaves has not said yes"


# --- who lets pass ------------------------------------------------------------------------------


@pytest.fixture
async def gateway(tmp_path):
    rules = (ApprovalRule("ask", tool="shell"),)
    script = Script([CALL, {"text": "Done."}] * 4)
    config = Config(approvals=ApprovalsConfig(rules=rules))
    async with open_test_gateway(tmp_path, script, config=config, tools=tools_for) as gateway:
        yield gateway


async def test_every_change_is_told_to_everyone_and_every_turn_names_its_source(gateway):
    client, _ = await gateway.client()
    watcher, _ = await gateway.client()
    session = await client.ready_session()
    await watcher.call("session.resume", session_id=session)
    assert gateway.sessions.get(session).info()["approval_source"] == ""
    await client.call("config.set", session_id=session, key="yolo", value="on")
    told = (await watcher.until("approval.mode", session)).payload
    assert told == {"mode": "yes", "source": "config.set yolo"}
    info = gateway.sessions.get(session).info()
    assert (info["approval_source"], info["yolo"]) == ("config.set yolo", True)
    status = await client.call("session.status", session_id=session)
    assert "yes  config.set yolo" in status["output"]
    await client.call("prompt.submit", session_id=session, text="go")
    start = await client.until("message.start", session)
    assert start.payload["bypass"] == "config.set yolo"
    await client.until("message.complete", session)
    await client.call("session.resume", session_id=session, auto_approve=False)
    assert (await watcher.until("approval.mode", session)).payload == {"mode": "ask", "source": ""}
    await client.call("prompt.submit", session_id=session, text="again")
    start = await client.until("message.start", session)
    assert "bypass" not in start.payload or start.payload["bypass"] == ""
    await client.until("approval.request", session)
    await client.call("session.interrupt", session_id=session)


async def test_a_session_that_is_opened_anew_asks_again(gateway):
    client, _ = await gateway.client()
    session = await client.ready_session(auto_approve=True)
    await client.call("session.close", session_id=session)
    await client.call("session.resume", session_id=session)
    await client.call("prompt.submit", session_id=session, text="go")
    await client.until("approval.request", session)
    await client.call("session.interrupt", session_id=session)


async def test_grants_have_exactly_their_extent(gateway):
    """Once is once, a session's is no other's, always is everywhere; and a deny beats them."""
    client, _ = await gateway.client()
    first, second = await client.ready_session(), await client.ready_session()

    async def asks(session) -> bool:
        await client.call("prompt.submit", session_id=session, text="go")
        while (event := await client.next_event()).type != "message.complete":
            if event.type == "approval.request":
                return True
        return False

    async def answer(session, choice):
        await client.call("approval.respond", session_id=session, choice=choice)
        await client.until("message.complete", session)

    assert await asks(first)
    await answer(first, "once")
    assert await asks(first)
    await answer(first, "session")
    assert not await asks(first)
    assert await asks(second)
    await answer(second, "always")
    third = await client.ready_session()
    assert not await asks(third)
    del first
