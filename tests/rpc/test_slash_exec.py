"""slash.exec: a slash command's text."""

from __future__ import annotations

import pytest

from tenure.errors import BadValue, NotFound
from tenure.testing.gates import Gate


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("/help", "/model"),
        ("status", "idle"),
        ("/usage", "tokens in"),
        ("/title A name", "title: A name"),
        ("/tools", "shell"),
        ("/stop", "nothing is running"),
        ("/steer hello", "nothing was running, so it begins a turn"),
        ("/model", "scripted:test (a test)"),
        ("/model scripted:b", "model: scripted:b"),
        ("/new", "session.create"),
        ("/quit", "Ctrl-D"),
    ],
)
async def test_each(rig, command, shown):
    session = await rig.session()
    assert shown in (await rig.call("slash.exec", session_id=session, command=command))["output"]


async def test_what_there_is_not(rig):
    session = await rig.session()
    with pytest.raises(BadValue, match="did you mean /model"):
        await rig.call("slash.exec", session_id=session, command="/modle")
    with pytest.raises(BadValue, match="/help lists all"):
        await rig.call("slash.exec", session_id=session, command="/xyzzy")
    await rig.refuses_strangers("slash.exec", command="/status")
    await rig.refuses_wrong_types("slash.exec", command="/help")


async def test_going_back_and_branching_by_command(rig):
    session = await rig.session()
    await rig.turn(session, "one")

    async def run(command):
        return (await rig.call("slash.exec", session_id=session, command=command))["output"]

    assert "tenure chat --session" in await run("/branch Twig")
    assert await run("/undo") == "taken back: one (2 entries)"
    assert "Nothing to compress" in await run("/compress zebras")
    with pytest.raises(BadValue, match="/steer TEXT"):
        await run("/steer")
    assert "interrupt" in await run("/queue policy interrupt")
    for wrong in ("/queue rm 1", "/queue rm \N{SUPERSCRIPT TWO}", "/queue edit x", "/queue dance"):
        with pytest.raises(BadValue):
            await run(wrong)


@pytest.mark.parametrize("steps", [[[{"gate": "g"}, {"text": "One."}], {"text": "Two."}]])
async def test_the_queue_by_command(rig, steps):
    session = await rig.session()
    await rig.call("prompt.submit", session_id=session, text="runs")

    async def run(command):
        return (await rig.call("slash.exec", session_id=session, command=command))["output"]

    for text in ("a", "b"):
        await rig.call("prompt.submit", session_id=session, text=text)
    assert (await run("/queue")).splitlines()[:2] == ["1  a", "2  b"]
    assert (await run("/queue edit 2 better b")).splitlines()[1] == "2  better b"
    assert (await run("/queue rm 1")).splitlines()[0] == "1  better b"
    assert await run("/steer look here") == "goes into the running turn"


async def test_files_for_the_next_prompt(rig, tmp_path):
    session = await rig.session()
    (tmp_path / "a b.txt").write_text("one")
    (tmp_path / "c.txt").write_text("two")

    async def said(command):
        return (await rig.call("slash.exec", session_id=session, command=command))["output"]

    assert "nothing is attached" in await said("/attach")
    assert await said("/attach a b.txt") == "attached: a b.txt (text, 3 characters)"
    assert (await said("/attach c.txt 'a b.txt'")).count("attached: ") == 2
    with pytest.raises(NotFound, match="no file"):
        await said("/attach nowhere.txt")
    with pytest.raises(BadValue, match="quotation mark"):
        await said("/attach c.txt 'a")
    assert (await said("/attach")).splitlines()[1:] == [
        "1  a b.txt (text, 3 characters)", "2  c.txt (text, 3 characters)",
        "3  a b.txt (text, 3 characters)",
    ]  # fmt: skip
    assert (await said("/detach 2")).startswith("taken off: c.txt")
    await said("/detach")
    assert (await said("/detach")).endswith("/attach PATH attaches a file")
    with pytest.raises(BadValue, match="Nothing is attached"):
        await said("/detach")


async def test_what_commands_say_where_there_is_nothing(rig):
    session = await rig.session()

    async def run(command):
        return (await rig.call("slash.exec", session_id=session, command=command))["output"]

    assert "no checkpoints yet" in await run("/rollback")
    for wrong, told in (("/plan edit ", "/plan edit TEXT"), ("/plan dance", "does not know dance")):
        with pytest.raises(BadValue, match=told):
            await run(wrong)
    assert await run("/plan") == "plan mode is off"


async def test_while_the_agent_is_built(rig):
    gate = rig.gateway.picker.gates["model"] = Gate()
    session = (await rig.call("session.create"))["session_id"]
    await gate.wait_parked()
    found = await rig.call("slash.exec", session_id=session, command="/tools")
    assert found["output"] == "the agent is still being built"
    before = len(rig.client.seen)
    await rig.call("session.active_list", current_session_id=session)
    assert [e.type for e in rig.client.seen[before:]] == [], "there is nothing new to be told"
    gate.release()
    assert not (await rig.client.until("session.info", session)).payload["lazy"]
