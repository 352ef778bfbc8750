"""Case 19: after a start every row is owned by something that lives, or has ended with a reason."""

from __future__ import annotations

import asyncio

import pytest

from support.restarts import Restarts
from tenure.errors import LeaseLost
from tenure.models.script import Script
from tenure.store.holding import take_home
from tenure.store.sqlite import open_sqlite, prepare
from tenure.testing.tools import scripted_tool
from tenure.testing.waiting import until
from tenure.tools.base import Effect

ASKS = {"call": {"name": "scripted", "arguments": {}}}
OPEN = (
    "SELECT id FROM turns WHERE state IN ('queued', 'running') UNION ALL "
    "SELECT id FROM sessions WHERE status = 'open' UNION ALL "
    "SELECT id FROM approvals WHERE decision = '' UNION ALL "
    "SELECT key FROM leases WHERE holder != ''"
)


async def busy_and_killed(restarts: Restarts) -> dict[str, str]:
    """Sessions of every kind, and a kill; their ids."""
    tool = scripted_tool("scripted", effect=Effect.EXECUTE)
    script = Script([{"gate": "never"}], on=[{"match": "zq-ask", "step": ASKS}])
    found = {}
    async with restarts.boot(script, tools=lambda *_: (tool,)) as gateway:
        client, scope = await gateway.client()
        for kind in ("idle", "working", "asking", "detached"):
            found[kind] = await client.ready_session()
        await client.call("prompt.submit", session_id=found["working"], text="work")
        await client.call("prompt.submit", session_id=found["working"], text="and then")
        await client.call("prompt.submit", session_id=found["asking"], text="zq-ask")
        await client.until("approval.request", found["asking"])
        await client.call("prompt.submit", session_id=found["detached"], text="alone")
        await scope.close()
        assert len(restarts.rows(OPEN)) == 4 + 4 + 1 + 4
        restarts.kill()
    return found


async def test_every_row_is_taken_up_or_ended(tmp_path):
    restarts = Restarts(tmp_path)
    found = await busy_and_killed(restarts)
    async with restarts.boot(Script([{"text": "done"}], loop=True)) as gateway:
        live = {session.id for session in gateway.sessions.live()}
        assert live == {found["working"], found["asking"], found["detached"]}
        await until(lambda: not any(s.current or s.queued for s in gateway.sessions.live()))
        statuses = dict(restarts.rows("SELECT id, status || ' ' || reason FROM sessions"))
        assert statuses[found["idle"]] == "closed crash"
        assert {status for sid, status in statuses.items() if sid in live} == {"open "}
        assert restarts.rows("SELECT decision FROM approvals") == [("void (crash)",)]
    assert restarts.rows(OPEN) == [], "and none after a graceful end"


async def test_a_command_that_works_alone_leaves_queued_prompts_to_the_next_gateway(tmp_path):
    restarts = Restarts(tmp_path)
    await busy_and_killed(restarts)
    script = Script([{"text": "never"}])
    async with restarts.boot(script, recover=False) as gateway:
        await asyncio.sleep(0)
        assert gateway.sessions.live() == [] and script.requests == []
    states = dict(restarts.rows("SELECT prompt, state FROM turns"))
    assert states == {
        "work": "interrupted", "and then": "queued", "zq-ask": "interrupted", "alone": "interrupted",
    }  # fmt: skip


async def test_rows_of_a_living_owner_are_left_alone(tmp_path):
    restarts = Restarts(tmp_path)
    async with restarts.boot(Script([{"gate": "never"}])) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session()
        await client.call("prompt.submit", session_id=session, text="work")
        before = [
            restarts.rows(f"SELECT * FROM {table}") for table in ("turns", "sessions", "home")
        ]
        second = open_sqlite(restarts.path, prepare(restarts.path, tmp_path / "backups"))
        with pytest.raises(LeaseLost, match="held"):
            await take_home(second, "second", 60.0, is_gone=lambda _: False, lost=lambda: None)
        await second.aclose()
        assert before == [
            restarts.rows(f"SELECT * FROM {table}") for table in ("turns", "sessions", "home")
        ]
