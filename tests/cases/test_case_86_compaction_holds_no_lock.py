"""Case 86: nothing waits for a summary, nothing is lost by it, and it gives up after a few tries."""

from __future__ import annotations

from support.restarts import Restarts
from tenure.models.script import Script
from tenure.testing.gateway import open_test_gateway
from tenure.testing.tools import scripted_tool

LONG = "word " * 3_000
NEVER = {"text": "word " * 30_000}
"""A summary that is longer than what it stands for."""
SUMMARY = "Summarize the session"


def script(*steps, summary, window=8_000):
    on = [{"match": SUMMARY, "step": summary}]
    return Script(list(steps), on=on, context_tokens=window)


async def test_other_sessions_and_the_title_go_on_while_the_model_summarizes(tmp_path):
    steps = script({"text": LONG}, {"text": LONG}, summary=[{"gate": "g"}, {"text": "Short."}])
    async with open_test_gateway(tmp_path, steps) as gw:
        client, _ = await gw.client()
        sid, other = await client.ready_session(), await client.ready_session()
        for n in range(2):
            await client.call("prompt.submit", session_id=sid, text=f"p{n}")
            await client.until("message.complete", sid)
        compressing = gw.root.spawn(client.call("session.compress", session_id=sid), name="c").value
        await steps.gate("g").wait_reached()
        await client.call("session.title", session_id=sid, title="written meanwhile")
        await client.call("prompt.submit", session_id=other, text="hi")
        await client.until("message.complete", other)
        receipt = await client.call("prompt.submit", session_id=sid, text="waits")
        assert receipt["status"] == "queued"
        assert (await gw.store.turns(sid))[-1].prompt == "waits", "it is stored at once"
        steps.gate("g").open()
        assert (await compressing)["summary"]["noop"] is False
        await client.until("message.complete", sid)


async def test_a_gateway_that_dies_during_it_leaves_no_lock(tmp_path):
    restarts = Restarts(tmp_path)
    steps = script({"text": LONG}, {"text": LONG}, summary=[{"gate": "never"}])
    async with restarts.boot(steps) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        for n in range(2):
            await client.call("prompt.submit", session_id=sid, text=f"p{n}")
            await client.until("message.complete", sid)
        gw.root.spawn(_quietly(client, sid), name="compress")
        await steps.gate("never").wait_reached()
        restarts.kill()
        await client.call("session.interrupt", session_id=sid)
    async with restarts.boot(Script([{"text": "At once."}])) as gw:
        client, _ = await gw.client()
        await client.call("session.resume", session_id=sid)
        await client.call("prompt.submit", session_id=sid, text="next")
        assert (await client.until("message.complete", sid)).payload["text"] == "At once."


async def test_a_summary_that_never_shrinks_is_given_up_and_the_turn_runs(tmp_path):
    probes = [[{"call": {"name": "probe", "arguments": {"text": f"t{n}"}}}] for n in range(5)]
    steps = script({"text": LONG}, {"text": LONG}, *probes, {"text": "Still here."}, summary=NEVER)
    probe = scripted_tool("probe")
    async with open_test_gateway(tmp_path, steps, tools=lambda _c, _s: (probe,)) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        for n in range(3):
            before = len(steps.requests)
            await client.call("prompt.submit", session_id=sid, text=f"p{n} " + "more " * 2_000)
            end = (await client.until("message.complete", sid)).payload
        assert (end["state"], end["text"]) == ("completed", "Still here.")
        asked = steps.requests[before:]
        assert len([r for r in asked if SUMMARY in r.messages[0].text]) == 1, "once in this turn"
        assert len(probe.effects) == 5


async def _quietly(client, sid):
    from contextlib import suppress

    from tenure.errors import TenureError

    with suppress(TenureError):
        await client.call("session.compress", session_id=sid)
