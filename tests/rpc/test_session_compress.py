"""session.compress: replace older history by a summary now."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from tenure.errors import SessionBusy
from tenure.models.script import Script
from tenure.testing.gateway import open_test_gateway

LONG = "word " * 400


@asynccontextmanager
async def talked(folder, summary, *answers):
    """A session with an answered prompt for each of `answers`, and what a summary will say."""
    script = Script(
        [*({"text": text} for text in answers), {"text": "Going on."}],
        on=[{"match": "Summarize the session", "step": summary}],
    )
    async with open_test_gateway(folder, script) as gw:
        client, _ = await gw.client()
        session = await client.ready_session()
        for n, _ in enumerate(answers):
            await client.call("prompt.submit", session_id=session, text=f"prompt {n}")
            await client.until("message.complete", session)
        yield gw, client, session, script


async def test_history_becomes_a_summary_with_the_focus(tmp_path):
    summary = {"text": "A short summary."}
    async with talked(tmp_path, summary, LONG, LONG) as (gw, client, session, script):
        told = await client.call("session.compress", session_id=session, focus_topic="the zebra")
        assert told["status"] == "compressed" and told["after_tokens"] < told["before_tokens"]
        assert told["summary"]["headline"] == "Compressed." and told["removed"] > 0
        assert "the zebra" in script.requests[-1].messages[0].text
        await client.call("prompt.submit", session_id=session, text="three")
        await client.until("message.complete", session)
        sent = [m.text for m in script.requests[-1].messages]
        assert "A short summary." in sent[0] and sent[-1] == "three"
        assert gw.sessions.get(session).status == "idle"


async def test_where_a_summary_would_be_no_shorter_nothing_changes(tmp_path):
    async with talked(tmp_path, {"text": LONG}, "a", "b") as (gw, client, session, _):
        told = await client.call("session.compress", session_id=session)
        assert told["summary"]["noop"] and told["removed"] == 0
        assert len(gw.sessions.get(session).journal.items) == 4


async def test_prompts_wait_meanwhile_and_an_interrupt_ends_it(tmp_path):
    gated = [{"gate": "g"}, {"text": "S."}]
    async with talked(tmp_path, gated, LONG, LONG) as (gw, client, session, script):
        compressing = gw.root.spawn(
            _outcome(client.call("session.compress", session_id=session)), name="compress"
        ).value
        await script.gate("g").wait_reached()
        receipt = await client.call("prompt.submit", session_id=session, text="later")
        assert receipt["status"] == "queued"
        with pytest.raises(SessionBusy):
            await client.call("session.undo", session_id=session)
        await client.call("session.interrupt", session_id=session)
        assert "interrupted" in str(await compressing)
        end = (await client.until("message.complete", session)).payload
        assert (end["turn_id"], end["text"]) == (receipt["turn_id"], "Going on.")
        assert len(await gw.store.history(session)) == 6


async def test_a_session_at_rest_is_built_for_it(tmp_path):
    async with talked(tmp_path, {"text": "A summary."}, LONG, LONG) as (gw, client, session, _):
        await client.call("session.close", session_id=session)
        await client.call("session.attach", session_id=session, lazy=True)
        told = await client.call("session.compress", session_id=session)
        assert told["status"] == "compressed" and not gw.sessions.get(session).unbuilt


async def _outcome(call):
    try:
        return await call
    except SessionBusy as exc:
        return exc


async def test_guards(rig):
    await rig.refuses_strangers("session.compress")
    await rig.refuses_wrong_types("session.compress", session_id="x")
