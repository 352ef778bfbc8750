"""Remote servers: reached, logged in to, bounded; what fails is one sentence."""

from __future__ import annotations

import json

import pytest

from support.remote import Remote
from support.toolservers import open_rig
from tenure.errors import ToolError


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
        with pytest.raises(ToolError, match="does not start"):
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


async def test_a_session_without_network_reaches_none(tmp_path):
    async with Remote() as remote, open_rig(tmp_path) as rig:
        rig.declare(far={"url": remote.url})
        held = await rig.listed()
        (tool, *_) = held.tools()
        with pytest.raises(ToolError, match="no network"):
            await tool.call(json.dumps({}), rig.context(network=False))
