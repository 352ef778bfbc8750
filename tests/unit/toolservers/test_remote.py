"""Remote servers: reached, logged in to, bounded; what fails is one sentence."""

from __future__ import annotations

import pytest

from support.remote import Remote
from support.toolservers import fake, open_rig
from tenure.errors import ToolError
from tenure.settings import WebConfig


async def test_a_call(tmp_path):
    async with Remote() as remote, open_rig(tmp_path) as rig:
        rig.declare(far={"url": remote.url})
        held = await rig.listed()
        assert (await rig.call("mcp__far__echo", text="hello")).text == "hello"
        assert held.rows()[0]["transport"] == "http" and held.rows()[0]["status"] == "ready"


async def test_where_nobody_listens(tmp_path):
    async with Remote() as remote, open_rig(tmp_path) as rig:
        rig.declare(far={"url": remote.url})
        await rig.listed()
        await rig.close()
        await remote.__aexit__()
        rig.session()
        with pytest.raises(ToolError, match=r"does not start.*it cannot be reached: "):
            await rig.call("mcp__far__echo", text="x")
        assert rig.row("far")["status"] == "degraded"


async def test_a_connection_that_breaks_is_an_unknown_outcome(tmp_path):
    async with Remote() as remote, open_rig(tmp_path) as rig:
        remote.cut = "cut"
        rig.declare(far={"url": remote.url})
        await rig.listed()
        with pytest.raises(ToolError, match="outcome is unknown"):
            await rig.call("mcp__far__cut")
        assert remote.calls == ["cut"]
        assert (await rig.call("mcp__far__echo", text="again")).text == "again"


async def test_a_refusal_is_no_end_of_the_connection(tmp_path):
    async with Remote() as remote, open_rig(tmp_path) as rig:
        remote.refused = "cut"
        rig.declare(far={"url": remote.url})
        await rig.listed()
        sessions = remote.sessions
        with pytest.raises(ToolError, match="refused: not today"):
            await rig.call("mcp__far__cut")
        assert (await rig.call("mcp__far__echo", text="again")).text == "again"
        assert (remote.sessions, rig.row("far")["status"]) == (max(sessions, 1), "ready")


async def test_an_answer_has_a_limit(tmp_path):
    async with Remote() as remote, open_rig(tmp_path) as rig:
        rig.declare(far={"url": remote.url})
        await rig.listed()
        remote.huge = True
        with pytest.raises(ToolError):
            await rig.call("mcp__far__echo", text="x")


async def test_one_that_wants_a_login_says_so(tmp_path):
    async with Remote() as remote, open_rig(tmp_path) as rig:
        rig.declare(far={"url": remote.url})
        await rig.listed()
        await rig.close()
        remote.asks = True
        rig.session()
        with pytest.raises(ToolError, match="wants a login: `tenure mcp login far`"):
            await rig.call("mcp__far__echo", text="x")


async def test_without_a_network_remote_ones_are_not_reached_and_others_are(tmp_path):
    async with Remote() as remote, open_rig(tmp_path) as rig:
        rig.declare(far={"url": remote.url}, near=fake(tmp_path / "near"))
        rig.web = WebConfig(enabled=False)
        held = await rig.listed()
        assert remote.sessions == 0 and sorted(held.names()) == ["mcp: near"]
        row = rig.row("far")
        assert (row["status"], row["connected"]) == ("no network", False)
        assert "[web] enabled = false" in row["reason"]
        rig.web = WebConfig()
        held = await rig.listed()
        assert sorted(held.names()) == ["mcp: far", "mcp: near"] and rig.row("far")["connected"]
        rig.web = WebConfig(enabled=False)
        rig.session()
        assert sorted(held.names()) == ["mcp: near"]
