"""Case 77: the report of a sub-agent is stored by itself and delivered once, whoever dies between."""

from __future__ import annotations

import pytest

from support.delegation import delegating, script_of, sub, tools
from support.restarts import Restarts
from tenure.models.script import Script
from tenure.testing.waiting import until


async def _say(client, session, text):
    await client.call("prompt.submit", session_id=session, text=text)
    await client.until("message.complete", session)


def _told(script, what):
    """In how many entries of the last request it stands."""
    return sum(what in m.text for m in script.requests[-1].messages)


@pytest.mark.parametrize("killed", ["between the reports", "after the result"])
async def test_a_kill_loses_no_work_and_repeats_none(tmp_path, killed):
    restarts = Restarts(tmp_path)
    script = script_of(
        delegating("goal one", "goal two"),
        [{"gate": "last step"}],
        on=[
            sub("goal one", {"text": "found by one"}),
            sub("goal two", {"gate": "two"}, {"text": "found by two"}),
        ],
    )
    async with restarts.boot(script, tools=tools()) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session()
        await client.call("prompt.submit", session_id=session, text="go")
        await client.until("subagent.complete")
        await script.gate("two").wait_reached()
        assert len(await gateway.store.notes(session)) == 1, "stored, while its sibling works"
        if killed == "after the result":
            script.gate("two").open()
            await script.gate("last step").wait_reached()
            assert await gateway.store.notes(session) == [], "in one write with the result"
        restarts.kill()
    again = Script([{"text": "Fine."}], loop=True)
    async with restarts.boot(again, tools=tools()) as gateway:
        client, _ = await gateway.client()
        await client.call("session.resume", session_id=session)
        await until(lambda: gateway.sessions.get(session).current is None)
        await _say(client, session, "and now?")
        await _say(client, session, "and on")
        assert _told(again, "found by one") == 1
        assert _told(again, "found by two") == (1 if killed == "after the result" else 0)
        assert await gateway.store.notes(session) == []


async def test_a_report_waits_for_the_session_to_come_back(tmp_path):
    restarts = Restarts(tmp_path)
    script = script_of(
        delegating("goal one", "goal two"),
        on=[sub("goal one", {"text": "found by one"}), sub("goal two", {"gate": "never"})],
    )
    async with restarts.boot(script, tools=tools()) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session()
        await client.call("prompt.submit", session_id=session, text="go")
        await client.until("subagent.complete")
        await client.call("session.close", session_id=session)
        assert len(await gateway.store.notes(session)) == 1, "visible, and unclaimed"
    later = Script([{"text": "Fine."}], loop=True)
    async with restarts.boot(later, tools=tools()) as gateway:
        client, _ = await gateway.client()
        await client.call("session.resume", session_id=session)
        await _say(client, session, "and now?")
        assert _told(later, "found by one") == 1
