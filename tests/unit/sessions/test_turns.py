"""Prompts: run or queued, stored before they are acknowledged, ended once."""

from __future__ import annotations

import asyncio

import pytest

from tenure.config import Config, LimitsConfig
from tenure.errors import Overloaded, StoreFull, TooLarge
from tenure.models.script import Script
from tenure.sessions.turns import LiveTurn
from tenure.store.base import FenceTurn, InsertTurn, PatchTurn
from tenure.testing.clock import ManualClock, settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.store import MemoryStore
from tenure.testing.tools import PlainTool, scripted_tool
from tenure.tools.base import ToolResult


async def test_a_turn_streams_and_ends_once(tmp_path):
    script = Script([{"text": "Hello there, friend."}])
    async with open_test_gateway(tmp_path, script) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        receipt = await client.call("prompt.submit", session_id=sid, text="hi")
        assert receipt["status"] == "streaming"
        done = await client.until("message.complete")
        kinds = [e.type for e in client.seen if e.session_id == sid and e.type != "session.info"]
        assert kinds[0] == "message.start" and kinds[-1] == "message.complete"
        text = "".join(e.payload["text"] for e in client.seen if e.type == "message.delta")
        assert text == done.payload["text"] == "Hello there, friend."
        assert [e.seq for e in client.seen if e.seq] == [1, 2]
        (turn,) = await gw.store.turns(sid)
        assert (turn.state, turn.cause) == ("completed", "stop")


async def test_nothing_is_published_or_acknowledged_before_the_commit(tmp_path):
    gate = Gate()
    store = MemoryStore()
    async with open_test_gateway(tmp_path, Script([{"text": "Hello."}]), store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        store._gate = gate
        session = gw.sessions.get(sid)
        events = []
        session.attachments.attach(
            type("L", (), {"publish": staticmethod(events.append)})(),
            gw.root,
            sid,
            close_on_disconnect=False,
        )
        submitted = gw.root.spawn(session.submit("hi"), name="submit").value
        await gate.wait_parked()
        await settle()
        assert session.current is not None, "the model call overlaps the commit"
        assert not submitted.done()
        assert [e.type for e in events] == []
        gate.release()
        await client.until("message.complete")
        assert submitted.done()
        assert events[0].type == "message.start"


async def test_a_prompt_that_cannot_be_stored_is_refused_and_does_not_run(tmp_path):
    store = MemoryStore()
    script = Script([{"text": "Never."}, {"text": "Later."}])
    async with open_test_gateway(tmp_path, script, store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        store.fail(StoreFull("No space is left."))
        with pytest.raises(StoreFull):
            await client.call("prompt.submit", session_id=sid, text="lost?")
        await settle()
        session = gw.sessions.get(sid)
        assert session.current is None and session.status == "idle"
        assert session.journal.items == []
        assert await gw.store.turns(sid) == []
        assert not [e for e in client.seen if e.type.startswith("message.")]
        await client.call("prompt.submit", session_id=sid, text="again")
        done = await client.until("message.complete")
        assert done.payload["state"] == "completed"
        assert [m.text for m in script.requests[-1].messages] == ["again"]


async def test_the_queue_is_first_in_first_out_with_a_stated_limit(tmp_path):
    config = Config(limits=LimitsConfig(queue_max=4))
    script = Script([[{"gate": "one"}, {"text": "1"}], *({"text": str(n)} for n in range(2, 6))])
    async with open_test_gateway(tmp_path, script, config=config) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        first = await client.call("prompt.submit", session_id=sid, text="p1")
        receipts = [
            await client.call("prompt.submit", session_id=sid, text=f"p{n}") for n in range(2, 6)
        ]
        assert first["status"] == "streaming"
        assert [(r["status"], r["position"]) for r in receipts] == [
            ("queued", n) for n in (1, 2, 3, 4)
        ]
        with pytest.raises(Overloaded, match="session busy"):
            await client.call("prompt.submit", session_id=sid, text="p6")
        script.gate("one").open()
        for n in range(1, 6):
            done = await client.until("message.complete")
            assert done.payload["text"] == str(n)
        assert [t.prompt for t in await gw.store.turns(sid)] == [f"p{n}" for n in range(1, 6)]


async def test_a_prompt_over_the_limit_is_refused_in_a_sentence(tmp_path):
    async with open_test_gateway(tmp_path, Script([])) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        for text in ("x" * (4 * 1024 * 1024 + 1), "€" * (2 * 1024 * 1024)):
            with pytest.raises(TooLarge, match="4 MiB"):
                await client.call("prompt.submit", session_id=sid, text=text)
        assert await gw.store.turns(sid) == []


async def test_an_interrupt_ends_the_turn_and_the_next_one_is_untouched(tmp_path):
    script = Script([[{"text": "Part"}, {"gate": "mid"}, {"text": " more"}], {"text": "Second."}])
    async with open_test_gateway(tmp_path, script) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="one")
        await client.until("message.delta")
        assert await client.call("session.interrupt", session_id=sid) == {"status": "interrupted"}
        done = await client.until("message.complete")
        assert (done.payload["state"], done.payload["cause"]) == ("interrupted", "user")
        assert done.payload["text"] == "Part"
        await client.call("prompt.submit", session_id=sid, text="two")
        done = await client.until("message.complete")
        assert (done.payload["state"], done.payload["text"]) == ("completed", "Second.")


async def test_a_clock_that_stands_still_holds_nothing(tmp_path):
    clock = ManualClock()
    async with open_test_gateway(tmp_path, Script([{"text": "x"}]), clock=clock) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="one")
        await client.until("message.complete")
        await settle()
        assert clock.pending == 1, "an idle session has no timer; the reaper has one for all"


async def test_what_is_read_ahead_is_what_every_request_begins_with(tmp_path):
    script = Script([{"text": "ok"}])
    tools = (scripted_tool("probe"),)
    async with open_test_gateway(tmp_path, script, tools=lambda _c, _s: tools) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="hi")
        await client.until("message.complete")
        (request,) = script.requests
        assert (gw.picker.ahead.system, gw.picker.ahead.tools) == (request.system, request.tools)


async def test_an_interrupt_that_comes_too_late_names_no_cause(tmp_path):
    script = Script([[{"text": "All"}, {"gate": "mid"}]])
    store = MemoryStore()
    async with open_test_gateway(tmp_path, script, store=store) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        await client.call("prompt.submit", session_id=sid, text="hi")
        await client.until("message.delta")
        gate = store._gate = Gate()
        script.gate("mid").open()
        await gate.wait_parked()  # the whole answer is on its way to the store
        await client.call("session.interrupt", session_id=sid)
        await settle()
        store._gate = None
        gate.release()
        done = (await client.until("message.complete")).payload
        assert (done["state"], done["cause"]) == ("completed", "stop")


async def test_the_first_cause_of_an_interrupt_stands_also_before_a_turn_runs(root):
    turn = LiveTurn("t", 1, "p", 1.0)
    turn.cancel("user")
    assert turn.cause == "user"
    turn = LiveTurn("t", 1, "p", 1.0)
    turn.task = root.spawn(asyncio.Event().wait(), name="turn")
    running = turn.task.value
    await settle()
    turn.cancel("timeout")
    turn.cancel("user")
    assert turn.cause == "timeout"
    await asyncio.wait([running])
    assert running.cancelled()
    turn.cancel("user")


def test_one_that_waited_runs_only_if_it_is_stored():
    turn = LiveTurn("t", 1, "p", 1.0)
    assert turn.begins("s", 5.0, fresh=True) == [InsertTurn(turn.row("s", "running"))]
    started = PatchTurn("t", {"state": "running", "started_at": 5.0})
    assert turn.begins("s", 5.0, fresh=False) == [started, FenceTurn("t")]


class Holds(PlainTool):
    """Takes one thing for its turn and one for its session."""

    name = "holds"

    def __init__(self) -> None:
        self.released = []
        self.calls = []

    async def call(self, arguments, ctx):
        for scope, what in ((ctx.scope, "turn's"), (ctx.session, "session's")):
            scope.own("thing", what, self.released.append)
        ctx.state["calls"] = ctx.state.get("calls", 0) + 1
        self.calls.append((ctx.turn_id, ctx.state["calls"]))
        return ToolResult("held")


async def test_what_a_call_holds_ends_with_its_turn_or_with_its_session(tmp_path):
    tool = Holds()
    call = {"call": {"name": "holds", "arguments": {}}}
    script = Script([call, {"text": "One."}, call, {"text": "Two."}])
    async with open_test_gateway(tmp_path, script, tools=lambda _c, _s: (tool,)) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        for n in (1, 2):
            await client.call("prompt.submit", session_id=sid, text="go")
            await client.until("message.complete")
            assert tool.released == ["turn's"] * n
        turns = [turn.id for turn in await gw.store.turns(sid)]
        assert tool.calls == [(turns[0], 1), (turns[1], 2)]
        await client.call("session.close", session_id=sid)
        assert sorted(tool.released) == ["session's"] * 2 + ["turn's"] * 2
