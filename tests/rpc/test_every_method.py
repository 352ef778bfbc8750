"""What holds for all methods and events at once."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from support.memories import with_memories
from tenure.config import Config
from tenure.errors import MethodNotFound
from tenure.models.script import Script
from tenure.protocol.events import EVENTS
from tenure.protocol.methods import DISABLED, METHODS
from tenure.rpc.handlers import HANDLERS
from tenure.rpc.handlers.census import WATCH_S
from tenure.testing.clock import settle
from tenure.testing.gateway import open_test_gateway
from tenure.tools.registry import tools_for

HERE = Path(__file__).parent


def test_each_has_a_handler_and_a_test_file_of_its_own():
    assert set(HANDLERS) == set(METHODS)
    assert not set(DISABLED) & set(METHODS)
    for method in METHODS:
        assert (HERE / f"test_{method.replace('.', '_')}.py").exists(), method


async def test_cosmetic_methods_answer_with_their_disabled_form(rig):
    for method, answer in DISABLED.items():
        assert await rig.call(method, anything=1) == answer
    assert await rig.call("pet.hatch") == {} == await rig.call("learning.frames")
    with pytest.raises(MethodNotFound, match=r"no method 'session\.frobnicate'"):
        await rig.call("session.frobnicate")


async def test_unknown_members_are_ignored(rig):
    assert (await rig.call("session.create", invented=True, also={"x": 1}))["session_id"]


def strict(kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
    return msgspec.defstruct(
        "Strict" + kind.__name__, [], bases=(kind,), forbid_unknown_fields=True
    )


async def test_every_event_that_is_published_is_described_as_it_is(tmp_path):
    call = {"call": {"name": "shell", "arguments": {"command": "echo out; touch x"}}}
    asking = [
        {"call": {"name": "clarify", "arguments": {"question": "Which?"}}},
        *({"call": {"name": "shell", "arguments": {"command": "true", "secrets": [name]}}}
          for name in ("KEY", "SUDO_PASSWORD")),
    ]  # fmt: skip
    script = Script([
        [{"reasoning": "Hm."}, {"text": "Looking. "}, {"progress": "loading"}, call],
        [{"text": "Done."}],
        [call],
        *([one] for one in asking),
        [{"call": {"name": "delegate", "arguments": {"tasks": [{"goal": "goal one", "steps_max": 1}]}}}],
        [{"call": {"name": "memory", "arguments": {"action": "propose", "text": "one"}}}],
        [{"call": {"name": "todo", "arguments": {"items": [{"content": "one"}]}}}],
        [{"text": "Done."}],
        [{"error": {"status": 400, "message": "no"}}],
    ], on=[
        {"match": "Tools are off now", "step": {"text": "found"}},
        {"match": "goal one", "step": {"call": {"name": "list", "arguments": {}}}},
    ])  # fmt: skip
    async with open_test_gateway(tmp_path, script, tools=tools_for, config=Config()) as gateway:
        with_memories(gateway)
        client, _ = await gateway.client()
        session = await client.ready_session()
        other = await client.ready_session()
        await client.call("file.attach", session_id=other, data_url="eA==", name="x.txt")
        await client.call("session.title", session_id=session, title="T")
        await client.call("terminal.open", session_id=session, command="echo hi")
        await client.until("terminal.close")
        await client.call("prompt.submit", session_id=session, text="go")
        await client.until("approval.request")
        await client.call("session.steer", session_id=session, text="and quickly")
        await client.call("approval.respond", session_id=session, choice="once")
        await client.until("message.complete")
        await client.call("checkpoint.restore", session_id=session)
        await client.call("prompt.submit", session_id=session, text="go")
        await client.until("approval.request")
        await client.call("session.interrupt", session_id=session)
        await client.until("message.complete")
        await client.call("config.set", session_id=session, key="yolo", value="on")
        for kind in ("clarify", "secret", "sudo"):
            await client.call("prompt.submit", session_id=session, text="ask")
            await client.until(f"{kind}.request")
            await client.call("session.interrupt", session_id=session)
            await client.until(f"{kind}.expire")
        for on in (True, False):
            await client.call("plan.mode", session_id=session, on=on)
        await client.call("prompt.submit", session_id=session, text="hand it over")
        await client.until("message.complete")
        await client.call("census.watch")
        await settle()
        await client.call("session.create")
        gateway.ports.clock.advance(WATCH_S)
        await client.until("census.change")
        await client.call("census.watch", watching=False)
        await client.call("prompt.submit", session_id=session, text="fail")
        await client.until("message.complete")
        (tmp_path / "home").mkdir(exist_ok=True)
        (tmp_path / "home" / "config.toml").write_text("[limits]\nqueue_max = 3\n")
        await client.call("config.reload")
        await client.call("session.undo", session_id=session)
        await client.call("session.close", session_id=session)
        await client.until("session.closed")
        gateway.picker.failures["model"] = MethodNotFound("no model to be had")
        await client.call("session.create")
        await client.until("error")
        seen = client.seen
    for event in seen:
        kind = EVENTS[event.type]
        msgspec.convert(event.payload, strict(kind.payload))
        assert (event.seq > 0) == kind.durable, event.type
    # A notice is told at a start, and the end of a process is not waited for here: cases 13 and 53.
    assert set(EVENTS) - {e.type for e in seen} == {"session.notice", "background.complete"}
