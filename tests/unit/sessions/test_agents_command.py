"""/agents: sub-agents are seen, told something, ended and held back by their number."""

from __future__ import annotations

import re

import pytest

from support.delegation import delegating, left, one_at_work, results, script_of, sub, tools
from tenure.errors import BadValue, TenureError
from tenure.testing.clock import settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.tools import scripted_tool


async def say(client, session, command):
    return (await client.call("slash.exec", session_id=session, command=command))["output"]


async def test_one_is_listed_told_something_and_over_by_its_number(tmp_path):
    gate = Gate()
    script = script_of(
        delegating("goal one"),
        {"text": "Done."},
        on=[
            sub("also look there", {"text": "found both"}),
            sub("goal one", {"call": {"name": "slow", "arguments": {"text": "x"}}}),
        ],
    )
    slow = scripted_tool("slow", gate=gate)
    async with open_test_gateway(tmp_path, script, tools=tools(slow)) as gw:
        client, _ = await gw.client()
        session = await client.ready_session()
        assert await say(client, session, "/agents") == "no sub-agents"
        await client.call("prompt.submit", session_id=session, text="go")
        await gate.wait_parked()
        shown = await say(client, session, "/agents")
        assert re.fullmatch(r"  1  running, 1 call, \d+ tokens: goal one", shown)
        told = await say(client, session, "/agents steer 1 also look there")
        assert told == "sub-agent 1 hears it before its next step"
        gate.release()
        await client.until("message.complete")
        assert results(script) == ["found both"]
        assert "  1  completed, 1 call," in await say(client, session, "/agents")
        for late in ("/agents stop 1", "/agents steer 1 more"):
            with pytest.raises(TenureError, match="Sub-agent 1 is over"):
                await say(client, session, late)


async def test_one_is_stopped_and_the_turn_goes_on(tmp_path):
    script = script_of(
        delegating("goal one"), {"text": "Done."}, on=[sub("goal one", {"gate": "never"})]
    )
    async with open_test_gateway(tmp_path, script, tools=tools()) as gw:
        client, _ = await gw.client()
        session = await client.ready_session()
        await client.call("prompt.submit", session_id=session, text="go")
        await script.gate("never").wait_reached()
        assert await say(client, session, "/agents stop 1") == "sub-agent 1 is being ended"
        done = await client.until("message.complete")
        assert (done.payload["state"], left(gw)) == ("completed", [])
        assert "interrupted (interrupted by the person)" in await say(client, session, "/agents")


async def test_none_begins_until_they_are_let(tmp_path):
    script = script_of(
        delegating("goal one"), {"text": "Done."}, on=[sub("goal one", {"text": "found"})]
    )
    async with open_test_gateway(tmp_path, script, tools=tools()) as gw:
        client, _ = await gw.client()
        session = await client.ready_session()
        assert "paused: none begins" in await say(client, session, "/agents pause")
        await client.call("prompt.submit", session_id=session, text="go")
        await client.until("subagent.spawn_requested")
        await settle()
        assert "  1  waiting, 0 calls" in await say(client, session, "/agents")
        assert "paused" not in await say(client, session, "/agents resume")
        await client.until("message.complete")
        assert results(script) == ["found"]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("/agents fly", "/agents does not know fly; use steer, stop, pause, resume."),
        ("/agents stop", "Name one by its number: /agents stop N; /agents lists them."),
        ("/agents stop 7", "Name one by its number: /agents stop N; /agents lists them."),
        ("/agents steer 1", "Say what it should know: /agents steer 1 TEXT."),
    ],
)
async def test_what_it_does_not_understand_is_a_sentence(tmp_path, command, told):
    async with one_at_work(tmp_path) as (rig, _, _id):
        session = rig.gateway.sessions.live()[0].id
        with pytest.raises(BadValue) as caught:
            await rig.call("slash.exec", session_id=session, command=command)
        assert str(caught.value) == told


async def test_one_that_hears_too_much_says_so_and_watchers_tell_it_nothing(tmp_path):
    async with one_at_work(tmp_path) as (rig, _, _id):
        session = rig.gateway.sessions.live()[0].id
        for _ in range(16):
            await rig.call("slash.exec", session_id=session, command="/agents steer 1 more")
        with pytest.raises(BadValue, match="too much to hear"):
            await rig.call("slash.exec", session_id=session, command="/agents steer 1 more")
        watcher, _ = await rig.gateway.client()
        await watcher.call("session.attach", session_id=session, role="viewer")
        assert "running" in await say(watcher, session, "/agents")
        for command in ("/agents stop 1", "/agents steer 1 x", "/agents pause"):
            with pytest.raises(TenureError, match="only watches"):
                await say(watcher, session, command)
