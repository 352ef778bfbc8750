"""Case 52: every child and call knows its own session, whatever else runs at that moment."""

from __future__ import annotations

import asyncio

from tenure.clock import SystemClock
from tenure.models.script import Script
from tenure.testing.gateway import open_test_gateway
from tenure.tools.registry import tools_for

SESSIONS, TURNS = 10, 10
WHO = {"call": {"name": "shell", "arguments": {"command": "echo $TENURE_OWNER; basename $PWD"}}}


async def test_a_hundred_turns_side_by_side(tmp_path):
    script = Script([[WHO], {"text": "ok"}], loop=True)
    async with open_test_gateway(tmp_path, script, tools=tools_for, clock=SystemClock()) as gw:

        async def talk(n):
            client, _ = await gw.client()
            folder = tmp_path / f"folder{n}"
            folder.mkdir()
            sid = await client.ready_session(cwd=str(folder), auto_approve=True)
            for _ in range(TURNS):
                await client.call("prompt.submit", session_id=sid, text="who?")
                await client.until("message.complete", sid)
            return sid, [e for e in client.seen if e.type == "tool.complete"]

        found = await asyncio.gather(*(talk(n) for n in range(SESSIONS)))
        for n, (sid, completed) in enumerate(found):
            assert len(completed) == TURNS
            for event in completed:
                assert event.session_id == sid
                owner, folder = event.payload["result"].split()[-2:]
                assert sid in owner and folder == f"folder{n}"
