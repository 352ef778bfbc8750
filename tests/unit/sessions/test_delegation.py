"""Sub-agents: parallel, bounded, shown, steered, ended; their reports arrive once."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from support.delegation import delegating, left, results, script_of, sub, tools
from tenure.config import Config, LimitsConfig
from tenure.errors import StoreFull, TenureError
from tenure.sessions.subagents import Board, SubAgent
from tenure.sessions.workplace import Workplace
from tenure.settings import DelegationConfig
from tenure.testing.clock import ManualClock, settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.tools import PlainTool, scripted_tool
from tenure.tools.base import Effect, Task, ToolResult


def rules(**changes) -> Config:
    return msgspec.structs.replace(Config(), delegation=DelegationConfig(**changes))


def states(gateway):
    """Of the sub-agents of its one session."""
    (session,) = gateway.sessions.live()
    return [one.state for one in session.work.delegation.all.values()]


async def begin(gateway, text="go", **params):
    client, _ = await gateway.client()
    session = await client.ready_session(**params)
    await client.call("prompt.submit", session_id=session, text=text)
    return client, session


async def test_tasks_run_side_by_side_and_report_in_their_order(tmp_path):
    script = script_of(
        delegating("goal one", "goal two"),
        {"text": "Both are done."},
        on=[
            sub(
                "goal one",
                {"gate": "one"},
                {"text": "found one"},
                {"usage": {"input": 7, "output": 3}},
            ),
            sub(
                "goal two",
                {"gate": "two"},
                {"text": "found two"},
                {"usage": {"input": 5, "output": 2}},
            ),
        ],
    )
    async with open_test_gateway(tmp_path, script, tools=tools()) as gw:
        client, session = await begin(gw)
        await script.gate("one").wait_reached()
        await script.gate("two").wait_reached()
        listed = (await client.call("subagent.list", session_id=session))["subagents"]
        assert [(row["goal"], row["status"], row["depth"]) for row in listed] == [
            ("goal one", "running", 1), ("goal two", "running", 1),
        ]  # fmt: skip
        info = await client.call("session.usage", session_id=session)
        assert info["active_subagents"] == 2
        script.gate("two").open()
        await client.until("subagent.complete")
        script.gate("one").open()
        done = await client.until("message.complete")
        assert results(script) == ["[1] completed\nfound one\n\n[2] completed\nfound two"]
        assert "\n".join(m.text for m in script.requests[-1].messages).count("found one") == 1
        assert done.payload["usage"]["input"] >= 12, "what they spent is the turn's"
        assert await gw.store.notes(session) == [], "delivered with the result"
        assert left(gw) == []
        (row, _) = (await client.call("subagent.list", session_id=session))["subagents"]
        assert (row["status"], row["tokens"], row["api_calls"]) == ("completed", 10, 1)
        tail = await client.call(
            "subagent.tail", session_id=session, subagent_id=row["subagent_id"]
        )
        assert tail["lines"] == ["found one", "[completed]"]
        again = await client.call("subagent.tail", subagent_id=row["subagent_id"], after=1)
        assert (again["lines"], again["next"]) == (["[completed]"], 2)


async def test_a_sub_agent_sees_its_goal_alone_and_no_tool_of_the_person(tmp_path):
    script = script_of(
        delegating("goal one"), {"text": "Done."}, on=[sub("goal one", {"text": "found"})]
    )
    async with open_test_gateway(tmp_path, script, tools=tools(), config=rules(depth_max=1)) as gw:
        client, _ = await begin(gw, "the person's secret words")
        await client.until("message.complete")
        (request,) = [r for r in script.requests if r.messages[0].text == "goal one"]
        assert len(request.messages) == 1
        assert [tool.name for tool in request.tools] == ["probe"]
        assert results(script) == ["found"]


async def test_only_the_tools_and_steps_that_it_is_given(tmp_path):
    script = script_of(
        delegating("goal one", tools=["probe"], steps_max=1),
        {"text": "Done."},
        on=[
            sub("Tools are off now", {"text": "as far as I came"}),
            sub("goal one", {"call": {"name": "probe", "arguments": {"text": "x"}}}),
        ],
    )
    async with open_test_gateway(tmp_path, script, tools=tools(scripted_tool("other"))) as gw:
        client, _ = await begin(gw)
        await client.until("message.complete")
        (first, second) = [r for r in script.requests if r.messages[0].text == "goal one"]
        assert [tool.name for tool in first.tools] == ["probe"]
        assert second.text_only
        assert results(script) == ["as far as I came"]


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ({"goal": "  "}, "A task needs a goal."),
        ({"goal": "x", "tools": ["fly"]}, "There is no tool fly for a sub-agent."),
    ],
)
async def test_tasks_that_cannot_be_begun_are_told_and_none_is(tmp_path, task, told):
    call = {"call": {"name": "delegate", "arguments": {"tasks": [{"goal": "fine"}, task]}}}
    script = script_of(call, {"text": "Sorry."}, on=[])
    async with open_test_gateway(tmp_path, script, tools=tools()) as gw:
        client, session = await begin(gw)
        await client.until("message.complete")
        assert results(script) == [told]
        assert (await client.call("subagent.list", session_id=session))["subagents"] == []


async def test_too_many_tasks_and_switched_off(tmp_path):
    script = script_of(delegating("a", "b", "c"), {"text": "Sorry."}, on=[])
    async with open_test_gateway(tmp_path, script, tools=tools(), config=rules(tasks_max=2)) as gw:
        client, _ = await begin(gw)
        await client.until("message.complete")
        assert results(script) == ["3 tasks are too many; the limit is 2."]


async def test_so_many_work_at_once_and_the_others_wait(tmp_path):
    on = [sub(f"goal {n}", {"gate": f"g{n}"}, {"text": f"found {n}"}) for n in range(3)]
    script = script_of(delegating("goal 0", "goal 1", "goal 2"), {"text": "Done."}, on=on)
    async with open_test_gateway(
        tmp_path, script, tools=tools(), config=rules(parallel_max=2)
    ) as gw:
        client, session = await begin(gw)
        await script.gate("g0").wait_reached()
        await script.gate("g1").wait_reached()
        await settle()
        status = await client.call("delegation.status", session_id=session)
        assert [row["status"] for row in status["active"]] == ["running", "running", "waiting"]
        assert status["max_concurrent_children"] == 2
        script.gate("g1").open()
        await script.gate("g2").wait_reached()
        script.gate("g0").open()
        script.gate("g2").open()
        await client.until("message.complete")
        assert results(script)[0].count("completed") == 3


async def test_a_pause_begins_no_more_of_them(tmp_path):
    script = script_of(
        delegating("goal one"), {"text": "Done."}, on=[sub("goal one", {"text": "found"})]
    )
    async with open_test_gateway(tmp_path, script, tools=tools()) as gw:
        client, _ = await gw.client()
        session = await client.ready_session()
        assert await client.call("delegation.pause", paused=True) == {"paused": True}
        await client.call("prompt.submit", session_id=session, text="go")
        await client.until("subagent.spawn_requested")
        await settle()
        assert (await client.call("delegation.status"))["paused"]
        assert len(script.requests) == 1
        await client.call("delegation.pause", paused=False)
        await client.until("message.complete")
        assert results(script) == ["found"]


async def test_a_place_that_becomes_free_in_a_pause_begins_nobody(tmp_path):
    on = [sub(f"goal {n}", {"gate": f"g{n}"}, {"text": f"found {n}"}) for n in (1, 2)]
    script = script_of(delegating("goal 1", "goal 2"), {"text": "Done."}, on=on)
    async with open_test_gateway(
        tmp_path, script, tools=tools(), config=rules(parallel_max=1)
    ) as gw:
        client, session = await begin(gw)
        await script.gate("g1").wait_reached()
        await client.call("delegation.pause", session_id=session, paused=True)
        script.gate("g1").open()
        await client.until("subagent.complete")
        await settle()
        (_, second) = (await client.call("subagent.list", session_id=session))["subagents"]
        assert second["status"] == "waiting"
        await client.call("delegation.pause", session_id=session, paused=False)
        await script.gate("g2").wait_reached()
        script.gate("g2").open()
        await client.until("message.complete")
        assert results(script)[0].count("completed") == 2


async def test_a_pause_that_ends_and_begins_again_at_once_begins_nobody():
    board, one = Board(), SubAgent(Task("goal"), None, 0, 1)
    board.add(one)
    board.pause(True)
    begun = asyncio.Event()

    async def wait():
        async with board.place(one, 1):
            begun.set()

    waiting = asyncio.ensure_future(wait())
    await settle()
    board.pause(False)
    board.pause(True)
    await settle()
    assert not begun.is_set()
    board.pause(False)
    await waiting
    assert begun.is_set()


async def test_a_limit_that_changes_counts_for_those_that_come():
    board = Board()
    narrow, wide = (SubAgent(Task("goal"), None, n, 2) for n in range(2))
    async with board.place(narrow, 1):
        async with asyncio.timeout(30), board.place(wide, 2):
            pass


async def test_a_tree_of_one_place_each_does_not_wait_for_itself(tmp_path):
    script = script_of(
        delegating("outer goal"),
        {"text": "Done."},
        on=[
            sub("inner goal", {"text": "found inside"}),
            sub("found inside", {"text": "all of it"}),
            sub("outer goal", delegating("inner goal")),
        ],
    )
    async with open_test_gateway(
        tmp_path, script, tools=tools(), config=rules(parallel_max=1)
    ) as gw:
        client, session = await begin(gw)
        await client.until("message.complete")
        assert results(script) == ["all of it"]
        assert not [m for m in script.requests[-1].messages if "found inside" in m.text]
        rows = (await client.call("subagent.list", session_id=session))["subagents"]
        assert [(row["depth"], row["status"]) for row in rows] == [
            (1, "completed"),
            (2, "completed"),
        ]
        assert rows[1]["parent_id"] == rows[0]["subagent_id"]
        assert await gw.store.notes(session) == [], "the inner report went up with the outer one"


async def test_one_is_interrupted_and_the_others_go_on(tmp_path):
    on = [
        sub(f"goal {n}", {"text": f"part {n} "}, {"gate": f"g{n}"}, {"text": "whole"})
        for n in (1, 2)
    ]
    script = script_of(delegating("goal 1", "goal 2"), {"text": "Done."}, on=on)
    async with open_test_gateway(tmp_path, script, tools=tools()) as gw:
        client, session = await begin(gw)
        await script.gate("g1").wait_reached()
        await script.gate("g2").wait_reached()
        first, _ = (await client.call("subagent.list", session_id=session))["subagents"]
        which = first["subagent_id"]
        assert await client.call("subagent.interrupt", subagent_id=which) == {
            "found": True,
            "subagent_id": which,
        }
        over = await client.until("subagent.complete")
        assert (over.payload["status"], over.payload["text"]) == (
            "interrupted",
            "interrupted by the person",
        )
        assert (await client.call("subagent.interrupt", subagent_id=which))["found"] is False
        script.gate("g2").open()
        await client.until("message.complete")
        (told,) = results(script)
        assert told.startswith("[1] interrupted (interrupted by the person)\npart 1")
        assert told.endswith("[2] completed\npart 2 whole")


async def test_what_it_is_told_reaches_its_next_step(tmp_path):
    gate = Gate()
    slow = scripted_tool("slow", gate=gate)
    script = script_of(
        delegating("goal one"),
        {"text": "Done."},
        on=[
            sub("also look there", {"text": "found both"}),
            sub("goal one", {"call": {"name": "slow", "arguments": {"text": "x"}}}),
        ],
    )
    async with open_test_gateway(tmp_path, script, tools=tools(slow)) as gw:
        client, session = await begin(gw)
        await gate.wait_parked()
        (row,) = (await client.call("subagent.list", session_id=session))["subagents"]
        told = await client.call(
            "subagent.steer", subagent_id=row["subagent_id"], text="also look there"
        )
        assert told["found"]
        gate.release()
        await client.until("message.complete")
        assert results(script) == ["found both"]
        late = await client.call("subagent.steer", subagent_id=row["subagent_id"], text="more")
        assert late["found"] is False


async def test_an_interrupt_of_the_turn_ends_all_of_them_before_it_is_told(tmp_path):
    on = [
        sub("goal 1", {"text": "found 1."}),
        sub("goal 2", {"text": "half "}, {"gate": "never"}),
        sub("goal 3", {"gate": "nothing yet"}),
    ]
    script = script_of(
        delegating("goal 1", "goal 2", "goal 3"), {"text": "Later."}, {"text": "Again."}, on=on
    )
    async with open_test_gateway(tmp_path, script, tools=tools()) as gw:
        client, session = await begin(gw)
        await script.gate("never").wait_reached()
        await script.gate("nothing yet").wait_reached()
        await client.until("subagent.complete")
        await client.call("session.interrupt", session_id=session)
        done = await client.until("message.complete")
        assert done.payload["status"] == "interrupted"
        assert left(gw) == []
        kinds = [event.type for event in client.seen]
        assert kinds.count("subagent.complete") == 3
        assert kinds.index("message.complete") > max(
            n for n, kind in enumerate(kinds) if kind == "subagent.complete"
        )
        notes = {note.text.rpartition(": ")[2].strip() for note in await gw.store.notes(session)}
        assert notes == {"found 1.", "half"}, "nothing is lost"
        for _ in range(2):
            await client.call("prompt.submit", session_id=session, text="what was found?")
            await client.until("message.complete")
            said = [m.text for m in script.requests[-1].messages if m.role == "user"]
            assert sum("found 1.]" in text for text in said) == 1, "told once"
        assert await gw.store.notes(session) == []


@pytest.mark.parametrize(
    ("ending", "why"),
    [
        ("session.interrupt", "the person stopped its turn"),
        ("session.close", "its session was closed"),
        ("stop", "the gateway was stopped"),
    ],
)
@pytest.mark.parametrize("which", ["running", "waiting"])
async def test_what_ended_them_is_told_once_and_as_it_was(tmp_path, ending, why, which):
    on = [sub("goal", {"text": "half "}, {"gate": "never"})]
    script = script_of(delegating("goal 1", "goal 2"), {"text": "Later."}, on=on)
    async with open_test_gateway(
        tmp_path, script, tools=tools(), config=rules(parallel_max=1)
    ) as gw:
        client, session = await begin(gw)
        await script.gate("never").wait_reached()
        if ending == "stop":
            await gw.sessions.drain("gateway ended", 5.0)
        else:
            await client.call(ending, session_id=session)
        while (over := await client.until("subagent.complete")).payload["task_index"] != (
            0 if which == "running" else 1
        ):
            pass
        assert (over.payload["status"], over.payload["text"]) == ("interrupted", why)
        assert over.payload["number"] == over.payload["task_index"] + 1


async def test_one_that_fails_inside_says_so_and_is_not_called_interrupted(tmp_path, monkeypatch):
    from tenure.sessions import delegation

    async def broken(*_):
        raise RuntimeError("a fault")

    script = script_of(delegating("goal one"), {"text": "Done."}, on=[])
    monkeypatch.setattr(delegation, "run_turn", broken)
    async with open_test_gateway(tmp_path, script, tools=tools()) as gw:
        client, _ = await begin(gw)
        over = await client.until("subagent.complete")
        assert over.payload["status"] == "failed"
        await client.until("message.complete")
        assert results(script) == [
            "[1] failed (it failed inside; the log has the details)\n(no answer)"
        ]


@pytest.mark.parametrize("which", ["waiting", "running"])
async def test_a_close_ends_them(tmp_path, which):
    script = script_of(delegating("goal 1", "goal 2"), on=[sub("goal", {"gate": "never"})])
    async with open_test_gateway(
        tmp_path, script, tools=tools(), config=rules(parallel_max=1)
    ) as gw:
        client, session = await begin(gw)
        if which == "running":
            await script.gate("never").wait_reached()
        await client.call("session.close", session_id=session)
        await settle()
        assert left(gw) == []
        assert gw.sessions.find(session) is None


@pytest.mark.parametrize(
    ("changes", "steps_s", "told"),
    [
        ({"stall_s": 60.0}, [61.0], "it did nothing for 60 s"),
        ({"timeout_s": 100.0, "stall_s": 90.0}, [50.0, 51.0], "its time of 100 s is over"),
    ],
)
async def test_one_that_stands_still_or_takes_too_long_is_ended(tmp_path, changes, steps_s, told):
    clock = ManualClock()
    on = [sub("goal one", {"text": "half"}, *({"gate": f"g{n}"} for n in range(len(steps_s))))]
    for n, action in enumerate(on[0]["step"][1:], 1):
        on[0]["step"].insert(2 * n, {"text": f"more {n}"}) if action else None
    script = script_of(delegating("goal one"), {"text": "Done."}, on=on)
    async with open_test_gateway(
        tmp_path, script, tools=tools(), config=rules(**changes), clock=clock
    ) as gw:
        client, _ = await begin(gw)
        for n, step_s in enumerate(steps_s):
            await script.gate(f"g{n}").wait_reached()
            await settle()
            clock.advance(step_s)
            await settle()
            if n < len(steps_s) - 1:
                script.gate(f"g{n}").open()
        await settle(200)
        assert states(gw) == ["interrupted"]
        await client.until("message.complete")
        (text,) = results(script)
        assert text.startswith(f"[1] interrupted ({told})\nhalf")


async def test_a_long_tool_is_no_standstill(tmp_path):
    clock, gate = ManualClock(), Gate()
    slow = scripted_tool("slow", gate=gate)
    on = [
        sub("goal one", {"call": {"name": "slow", "arguments": {"text": "slowly done"}}}),
        sub("slowly done", {"text": "found"}),
    ]
    script = script_of(delegating("goal one"), {"text": "Done."}, on=on)
    config = rules(stall_s=10.0)
    async with open_test_gateway(
        tmp_path, script, tools=tools(slow), config=config, clock=clock
    ) as gw:
        client, _ = await begin(gw)
        await gate.wait_parked()
        for _ in range(5):
            clock.advance(9.0)
            await settle()
        gate.release()
        await client.until("message.complete")
        assert results(script) == ["found"]


async def test_a_budget_of_tokens_ends_it_and_keeps_what_it_has(tmp_path):
    on = [
        sub("goal one", {"text": "so far"}, {"call": {"name": "probe", "arguments": {"text": "x"}}},
            {"usage": {"input": 90, "output": 20}}),
    ]  # fmt: skip
    script = script_of(delegating("goal one"), {"text": "Done."}, on=on)
    async with open_test_gateway(
        tmp_path, script, tools=tools(), config=rules(tokens_max=100)
    ) as gw:
        client, _ = await begin(gw)
        await client.until("message.complete")
        assert results(script) == ["[1] interrupted (its budget of 100 tokens is used up)\nso far"]


async def test_a_question_of_one_is_asked_in_its_name(tmp_path):
    risky = scripted_tool("risky", effect=Effect.EXECUTE)
    on = [
        sub("goal one", {"call": {"name": "risky", "arguments": {"text": "x"}}}),
        sub("Denied", {"text": "was not allowed"}),
    ]
    script = script_of(delegating("goal one"), {"text": "Done."}, on=on)
    async with open_test_gateway(tmp_path, script, tools=tools(risky)) as gw:
        client, session = await begin(gw)
        asked = await client.until("approval.request")
        assert "asked by sub-agent 1: goal one" in str(asked.payload)
        await client.call("approval.respond", session_id=session, choice="deny")
        await client.until("message.complete")
        assert results(script) == ["was not allowed"]
        assert risky.effects == []


async def test_a_question_of_one_that_is_ended_is_settled_with_it(tmp_path):
    risky = scripted_tool("risky", effect=Effect.EXECUTE)
    on = [sub("goal one", {"call": {"name": "risky", "arguments": {"text": "x"}}})]
    script = script_of(delegating("goal one"), {"text": "Done."}, on=on)
    async with open_test_gateway(tmp_path, script, tools=tools(risky)) as gw:
        client, session = await begin(gw)
        asked = await client.until("approval.request")
        (row,) = (await client.call("subagent.list", session_id=session))["subagents"]
        await client.call("subagent.interrupt", subagent_id=row["subagent_id"])
        over = await client.until("question.settled")
        assert over.payload["request_id"] == asked.payload["request_id"]
        assert over.payload["decision"].startswith("void")
        done = await client.until("message.complete")
        assert done.payload["state"] == "completed", "the turn went on"
        assert gw.sessions.get(session).questions.pending == []
        assert risky.effects == []


async def test_another_model_and_one_that_cannot_be_had(tmp_path):
    from tenure.errors import ModelError

    script = script_of(
        delegating("goal one", model="scripted:other"),
        delegating("goal one", model="scripted:gone"),
        {"text": "Done."},
        on=[sub("goal one", {"text": "found"})],
    )
    async with open_test_gateway(tmp_path, script, tools=tools()) as gw:
        client, session = await begin(gw)
        picker = gw.picker
        await client.until("subagent.complete")
        picker.failures["model"] = ModelError("There is no such model.")
        await client.until("message.complete")
        first, second = results(script)
        assert first == "found"
        assert second == "[1] failed (There is no such model.)\n(no answer)"
        rows = (await client.call("subagent.list", session_id=session))["subagents"]
        assert [row["model"] for row in rows] == ["scripted:other", "scripted:gone"]
        assert sorted(picker.opened) == ["credentials", "http client", "model"], "the agent's alone"
        picker.failures.clear()


async def test_a_report_that_cannot_be_stored_is_told_all_the_same(tmp_path):
    script = script_of(
        delegating("goal one"),
        {"text": "Done."},
        on=[sub("goal one", {"gate": "g"}, {"text": "found"})],
    )
    async with open_test_gateway(tmp_path, script, tools=tools()) as gw:
        client, session = await begin(gw)
        await script.gate("g").wait_reached()
        await settle()
        gw.store.fail(StoreFull("No space is left."))
        script.gate("g").open()
        await client.until("message.complete")
        assert results(script) == ["found"]
        assert await gw.store.notes(session) == []
        await client.call("prompt.submit", session_id=session, text="and on")
        await client.until("message.complete")
        texts = "\n".join(m.text for m in script.requests[-1].messages)
        assert texts.count("found") == 1


async def test_what_is_unknown_and_what_only_watches(tmp_path):
    script = script_of(delegating("goal one"), on=[sub("goal one", {"gate": "never"})])
    async with open_test_gateway(tmp_path, script, tools=tools()) as gw:
        client, session = await begin(gw)
        await script.gate("never").wait_reached()
        (row,) = (await client.call("subagent.list", session_id=session))["subagents"]
        nobody = {"found": False, "subagent_id": "sub_gone"}
        assert await client.call("subagent.interrupt", subagent_id="sub_gone") == nobody
        with pytest.raises(TenureError, match="no sub-agent 'sub_gone'"):
            await client.call("subagent.tail", subagent_id="sub_gone")
        stranger, _ = await gw.client()
        with pytest.raises(TenureError, match="no sub-agent"):
            await stranger.call("subagent.steer", subagent_id=row["subagent_id"], text="x")
        await stranger.call("session.attach", session_id=session, role="viewer")
        for method in ("subagent.interrupt", "subagent.steer", "delegation.pause"):
            with pytest.raises(TenureError, match="only watches"):
                await stranger.call(method, subagent_id=row["subagent_id"], text="x", paused=True)
        assert (await stranger.call("delegation.status"))["active"][0]["status"] == "running"
        await asyncio.sleep(0)


async def test_a_task_takes_no_more_steps_than_there_may_be(tmp_path):
    script = script_of(
        delegating("goal one", steps_max=50),
        {"text": "Done."},
        on=[
            sub("Tools are off now", {"text": "as far as I came"}),
            sub("goal one", {"call": {"name": "probe", "arguments": {"text": "x"}}}),
        ],
    )
    config = rules(steps_max=1)
    async with open_test_gateway(tmp_path, script, tools=tools(), config=config) as gw:
        client, _ = await begin(gw)
        await client.until("message.complete")
        assert results(script) == ["as far as I came"]


class Keeps(PlainTool):
    """Takes something for the session, and remembers who has called it."""

    name = "keeps"

    def __init__(self) -> None:
        self.contexts = []
        self.released = []

    async def call(self, arguments, ctx):
        self.contexts.append(ctx)
        ctx.session.own("kept", None, lambda _: self.released.append(arguments))
        ctx.state.setdefault("calls", []).append(arguments)
        return ToolResult(arguments)


async def test_what_one_holds_knows_and_says_is_its_own_and_ends_with_it(tmp_path):
    kept = Keeps()

    def keeps(text):
        return {"call": {"name": "keeps", "arguments": {"text": text}}}

    script = script_of(
        keeps("turn"),
        delegating("goal one", "goal two"),
        [{"gate": "end"}, {"text": "Done."}],
        on=[
            sub("first", {"text": "found one"}),
            sub("second", {"gate": "second"}, {"text": "found two"}),
            sub("goal one", keeps("first")),
            sub("goal two", keeps("second")),
        ],
    )
    async with open_test_gateway(tmp_path, script, tools=tools(kept)) as gw:
        client, session = await begin(gw)
        await script.gate("second").wait_reached()
        await client.until("subagent.complete")
        await settle(200)
        assert kept.released == ['{"text":"first"}'], "though the call goes on"
        script.gate("second").open()
        await script.gate("end").wait_reached()
        assert kept.released == ['{"text":"first"}', '{"text":"second"}']
        assert left(gw) == []
        turn, *subs = kept.contexts
        below = [entry for entry in turn.scope._entries.values() if "sub-agents" in repr(entry)]
        assert below == [], "nor of a call that is over"
        assert [len(ctx.state["calls"]) for ctx in kept.contexts] == [1, 1, 1]
        assert turn.propose is not None
        assert [(ctx.propose, ctx.memory) for ctx in subs] == [(None, None)] * 2
        assert all(ctx.session is ctx.scope for ctx in subs)
        assert len({id(ctx.delegates) for ctx in kept.contexts}) == 3
        script.gate("end").open()
        await client.until("message.complete")
        said = [entry.message.text for entry in await gw.store.history(session)]
        assert said == [
            "go", "", '{"text":"turn"}', "", "[1] completed\nfound one\n\n[2] completed\nfound two",
            "Done.",
        ]  # fmt: skip


async def test_reports_of_the_others_are_told_to_the_turn_alone(tmp_path):
    """Though one that goes on looks for news at each of its steps."""
    script = script_of(
        delegating("goal one", "goal two"),
        {"text": "Done."},
        on=[
            sub("once more", {"text": "found two"}),
            sub("goal one", {"text": "found one"}),
            sub("goal two", {"gate": "two"},
                {"call": {"name": "probe", "arguments": {"text": "once more"}}}),
        ],
    )  # fmt: skip
    async with open_test_gateway(tmp_path, script, tools=tools()) as gw:
        client, session = await begin(gw)
        await client.until("subagent.complete")
        await script.gate("two").wait_reached()
        assert len(await gw.store.notes(session)) == 1
        script.gate("two").open()
        await client.until("message.complete")
        last = [m.text for m in script.requests[-1].messages]
        assert len(last) == 3
        assert sum("found one" in text for text in last) == 1


async def test_one_that_never_began_is_told_to_be_over(tmp_path):
    script = script_of(delegating("goal 1", "goal 2"), on=[sub("goal", {"gate": "never"})])
    async with open_test_gateway(
        tmp_path, script, tools=tools(), config=rules(parallel_max=1)
    ) as gw:
        client, session = await begin(gw)
        await script.gate("never").wait_reached()
        await client.call("session.interrupt", session_id=session)
        await client.until("message.complete")
        assert [event.type for event in client.seen].count("subagent.complete") == 2
        assert states(gw) == ["interrupted", "interrupted"]


@pytest.mark.parametrize(("wanted", "found"), [([], ["later"]), (["probe"], [])])
async def test_tools_that_come_later_are_those_that_it_may_have(
    tmp_path, monkeypatch, wanted, found
):
    more = (scripted_tool("later"), scripted_tool("terminal"))
    monkeypatch.setattr(Workplace, "more_tools", lambda _: more)
    script = script_of(
        delegating("goal one", tools=wanted),
        {"text": "Done."},
        on=[
            sub("once more", {"text": "found"}),
            sub("goal one", {"call": {"name": "probe", "arguments": {"text": "once more"}}}),
        ],
    )
    async with open_test_gateway(tmp_path, script, tools=tools()) as gw:
        client, _ = await begin(gw)
        await client.until("message.complete")
        asked = [r for r in script.requests if r.messages[0].text == "goal one"]
        names = {tool.name for request in asked for tool in request.tools}
        assert sorted(names & {"later", "terminal"}) == found


async def test_what_it_is_told_it_is_told_once(tmp_path):
    gate = Gate()
    slow = scripted_tool("slow", gate=gate)
    script = script_of(
        delegating("goal one"),
        {"text": "Done."},
        on=[
            sub("also look there", {"call": {"name": "probe", "arguments": {"text": "looked"}}}),
            sub("looked", {"text": "found both"}),
            sub("goal one", {"call": {"name": "slow", "arguments": {"text": "x"}}}),
        ],
    )
    async with open_test_gateway(tmp_path, script, tools=tools(slow)) as gw:
        client, session = await begin(gw)
        await gate.wait_parked()
        (row,) = (await client.call("subagent.list", session_id=session))["subagents"]
        which = row["subagent_id"]
        await client.call("subagent.steer", subagent_id=which, text="also look there")
        gate.release()
        await settle(500)
        assert states(gw) == ["completed"]
        await client.until("message.complete")
        assert results(script) == ["found both"]


async def test_a_report_is_kept_within_what_its_call_may_say(tmp_path):
    on = [sub("goal one", {"text": "x" * 50_000}), sub("goal two", {"gate": "two"})]
    script = script_of(delegating("goal one", "goal two"), {"text": "Done."}, on=on)
    config = msgspec.structs.replace(rules(), limits=LimitsConfig(tool_output_bytes_max=4_000))
    async with open_test_gateway(tmp_path, script, tools=tools(), config=config) as gw:
        client, session = await begin(gw)
        await client.until("subagent.complete")
        (note,) = await gw.store.notes(session)
        assert 1_500 < len(note.text) < 3_000
        script.gate("two").open()
        await client.until("message.complete")
