"""Plan mode reaches all that a session runs, and what is kept of a session is kept key by key."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from support.delegation import delegating, script_of, sub, tools
from tenure.agent.ports import Question
from tenure.errors import Conflict, StoreFull
from tenure.models.script import Script
from tenure.sessions.facts import keep_todo
from tenure.sessions.planning import (
    Plan,
    _accept,
    _latest,
    approve,
    edit,
    plan_of,
    propose,
    set_mode,
)
from tenure.sessions.prompts import policy_of, set_policy
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.tools import scripted_tool
from tenure.tools.base import Effect, TodoItem
from tenure.tools.registry import default_tools

TOUCH = {"call": {"name": "shell", "arguments": {"command": "touch made.txt"}}}
PLAN = {"call": {"name": "plan", "arguments": {"plan": "Mine."}}}


async def test_sub_agents_change_nothing_and_approve_nothing(tmp_path):
    script = script_of(
        delegating("goal one"),
        {"text": "So."},
        on=[sub("goal one", TOUCH, PLAN, {"text": "nothing done"})],
    )
    probe = scripted_tool(name="server__probe", effect=Effect.EXECUTE)
    more = lambda config, small: (*tools()(config, small), *default_tools(config.limits), probe)  # noqa: E731
    async with open_test_gateway(tmp_path, script, tools=more) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session(plan=True, auto_approve=True)
        await client.call("prompt.submit", session_id=session, text="go")
        await client.until("message.complete")
        assert not (tmp_path / "made.txt").exists()
        mine = [r for r in script.requests if "goal one" in r.messages[0].text]
        assert all("plan" not in [tool.name for tool in request.tools] for request in mine)
        denied, unknown = [m.text for m in mine[-1].messages if m.role == "tool"][:2]
        assert "Plan mode is on" in denied and "There is no tool 'plan'" in unknown
        assert plan_of(gateway.sessions.get(session)).text == ""


async def test_two_settings_that_change_at_once_are_both_kept(tmp_path):
    async with open_test_gateway(tmp_path, Script([])) as gateway:
        client, _ = await gateway.client()
        session = gateway.sessions.get(await client.ready_session())
        await keep_todo(session, (TodoItem("begin"),))
        await asyncio.gather(
            keep_todo(session, (TodoItem("look"),)),
            set_mode(session, True),
            set_policy(session, "steer"),
        )
        row = await gateway.store.session(session.id)
        assert set(row.settings) == {"todo", "plan", "busy"}
        assert row.settings == session.settings
        assert plan_of(session).on and policy_of(session) == "steer"


async def test_what_is_not_stored_does_not_count_but_for_the_safe_side(tmp_path):
    async with open_test_gateway(tmp_path, Script([])) as gateway:
        client, _ = await gateway.client()
        session = gateway.sessions.get(await client.ready_session())
        for change, on in ((set_mode(session, True), True), (set_mode(session, False), True)):
            gateway.store.fail(StoreFull("No space is left."))
            try:
                await change
            except StoreFull:
                pass
            assert plan_of(session).on is on
        gateway.store.fail(StoreFull("No space is left."))
        try:
            await edit(session, "x", None)
        except StoreFull:
            pass
        assert plan_of(session).text == ""


async def test_a_setting_that_is_not_stored_does_not_count(tmp_path):
    async with open_test_gateway(tmp_path, Script([])) as gateway:
        client, _ = await gateway.client()
        session = gateway.sessions.get(await client.ready_session())
        gateway.store.fail(StoreFull("No space is left."))
        with pytest.raises(StoreFull):
            await keep_todo(session, (TodoItem("look"),))
        assert "todo" not in session.settings


async def test_all_at_once_approves_no_plan_that_is_not_shown(tmp_path):
    script = Script([[{"gate": "g"}, {"text": "So."}]])
    async with open_test_gateway(tmp_path, script) as gateway:
        client, _ = await gateway.client()
        session = gateway.sessions.get(await client.ready_session(plan=True))
        await client.call("prompt.submit", session_id=session.id, text="go")
        await script.gate("g").wait_reached()
        turn_id = session.current.id
        question = Question("c1", "probe", Effect.NETWORK, "x", "/", "It reaches out.")
        asked = [
            asyncio.create_task(session.questions.ask(question, turn_id)),
            asyncio.create_task(propose(session, turn_id, "Mine.")),
        ]
        while len(session.questions.pending) < 2:
            await asyncio.sleep(0)
        answered = await client.call(
            "approval.respond", session_id=session.id, choice="once", all=True
        )
        assert answered == {"resolved": 1} and (await asked[0]).choice == "once"
        assert plan_of(session).on and not asked[1].done()
        await client.call("plan.approve", session_id=session.id)
        assert (await asked[1]).approved and not plan_of(session).on
        script.gate("g").open()
        await client.until("message.complete")


async def test_a_change_builds_on_one_that_is_not_stored_yet(tmp_path):
    async with open_test_gateway(tmp_path, Script([])) as gateway:
        client, _ = await gateway.client()
        session = gateway.sessions.get(await client.ready_session(plan=True))
        await edit(session, "One.", 0)
        first, second = await asyncio.gather(
            edit(session, "Two.", 1), edit(session, "Three.", 1), return_exceptions=True
        )
        assert first.text == "Two." and isinstance(second, Conflict)
        changed, refused = await asyncio.gather(
            edit(session, "Four.", 2), approve(session, "owner", 2), return_exceptions=True
        )
        assert changed.text == "Four." and isinstance(refused, Conflict), "it is not what was seen"
        await asyncio.gather(edit(session, "Five.", 3), approve(session, "owner", None))
        row = await gateway.store.session(session.id)
        assert row.settings["plan"] == msgspec.to_builtins(plan_of(session))
        assert plan_of(session).text == "Five." and not plan_of(session).on
        late = await edit(session, "Six.", 4)
        assert not late.on, "what was approved is not undone by a change"
        assert plan_of(session).approved_at == 0.0, "and the change is not what was approved"


async def test_what_builds_on_a_change_that_is_not_stored_is_one_that_was_never_made(tmp_path):
    async with open_test_gateway(tmp_path, Script([])) as gateway:
        client, _ = await gateway.client()
        session = gateway.sessions.get(await client.ready_session(plan=True))
        await edit(session, "One.", 0)
        gateway.store.fail(StoreFull("No space is left."))
        with pytest.raises(StoreFull):
            await approve(session, "owner", None)
        assert plan_of(session).on and plan_of(session).text == "One."
        assert (await edit(session, "Two.", 1)).on


def test_the_end_of_an_older_change_is_not_that_of_the_latest():
    session = SimpleNamespace(plan_accepted=None, settings={})
    first, second = Plan(on=True, text="One."), Plan(on=True, text="Two.")
    first_ended, second_ended = _accept(session, first), _accept(session, second)
    first_ended(True)
    assert plan_of(session) == first and _latest(session) is second
    second_ended(False)
    assert plan_of(session) == _latest(session) == first


async def test_a_plan_that_nobody_wants_is_not_waited_for(tmp_path):
    script = Script([[{"gate": "g"}, {"text": "So."}]])
    async with open_test_gateway(tmp_path, script) as gateway:
        client, _ = await gateway.client()
        session = gateway.sessions.get(await client.ready_session(plan=True))
        await client.call("prompt.submit", session_id=session.id, text="go")
        await script.gate("g").wait_reached()
        turn_id = session.current.id
        asked = asyncio.create_task(propose(session, turn_id, "Mine."))
        while not session.questions.pending:
            await asyncio.sleep(0)
        await set_mode(session, False)
        await settle(60)
        assert asked.done() and not asked.result().approved and not session.questions.pending
        again = asyncio.create_task(propose(session, turn_id, "Mine."))
        await settle(60)
        assert again.done() and again.result().approved, "there is nothing to approve any more"
        script.gate("g").open()
        await client.until("message.complete")


async def test_a_call_that_waits_for_its_turn_or_its_yes_is_held_back(tmp_path):
    """Judged before plan mode came, and not begun."""
    gate = Gate()
    probe = scripted_tool(effect=Effect.WRITE, gate=gate)
    calls = [{"call": {"name": "probe", "arguments": {"text": text}}} for text in ("one", "two")]
    script = Script([calls, {"text": "So."}, calls[:1], {"text": "So."}])
    async with open_test_gateway(tmp_path, script, tools=lambda _c, _s: (probe,)) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session(auto_approve=True)
        await client.call("prompt.submit", session_id=session, text="go")
        await gate.wait_parked()
        await client.call("plan.mode", session_id=session, on=True)
        gate.release()
        done = (await client.until("message.complete")).payload
        assert probe.effects == ["one"] and done["denied"] == 1, "what runs goes on"
        await client.call("plan.mode", session_id=session, on=False)
        await client.call("config.set", session_id=session, key="yolo", value="off")
        await client.call("prompt.submit", session_id=session, text="go")
        await client.until("approval.request")
        await client.call("plan.mode", session_id=session, on=True)
        await client.call("approval.respond", session_id=session, choice="once")
        done = (await client.until("message.complete")).payload
        assert probe.started == ["one"] and done["denied"] == 1
