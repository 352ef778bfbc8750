"""Case 3: one-off work (compaction) is closed on success and on error."""

from __future__ import annotations

import pytest

from tenure.models.script import Script
from tenure.testing.clock import settle
from tenure.testing.gateway import open_test_gateway

LONG = "word " * 3000


@pytest.mark.parametrize("fails", [False, True])
async def test_fifty_compactions_leave_nothing(tmp_path, fails):
    summary = {"error": {"status": 500, "message": "no"}} if fails else {"text": "A summary."}
    script = Script(
        [{"text": LONG}],
        loop=True,
        context_tokens=9000,
        on=[{"match": "ummar", "step": summary}],
    )
    async with open_test_gateway(tmp_path, script) as gw:
        client, _ = await gw.client()
        sid = await client.ready_session()
        baseline = None
        for n in range(50):
            await client.call("prompt.submit", session_id=sid, text=f"say it again {n}")
            await client.until("message.complete")
            await settle()
            held = sorted(gw.census())
            if n == 2:
                baseline = held
            if n > 2:
                assert held == baseline
    compactions = [r for r in script.requests if "ummar" in (r.system + r.messages[-1].text)]
    assert len(compactions) >= 10, "the helper really ran"
