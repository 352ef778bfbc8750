"""Case 71: what goes wrong with a tool server is told by its call, and by nothing else."""

from __future__ import annotations

import os
import signal

import pytest

from support.toolservers import alive, fake, lines, open_rig
from tenure.errors import ToolError
from tenure.testing.clock import ManualClock
from tenure.testing.waiting import until


@pytest.mark.timeout(20)  # without its guard it would hang
async def test_a_child_killed_under_a_call_fails_it_at_once(tmp_path):
    async with open_rig(tmp_path, ManualClock()) as rig:  # no time passes for it
        rig.declare(fake=fake(tmp_path / "f", timeout_s=600))
        await rig.listed()
        call = rig.scope().spawn(rig.call("mcp__fake__slow", text="x"), name="call").value
        await until(lambda: lines(tmp_path / "f", "calls") == ["slow"])
        os.kill(alive(tmp_path / "f")[0], signal.SIGKILL)
        with pytest.raises(ToolError, match="signal 9"):
            await call
        assert (await rig.call("mcp__fake__echo", text="again")).text == "again"


async def test_a_call_without_an_answer_leaves_the_others(tmp_path):
    clock = ManualClock()
    async with open_rig(tmp_path, clock) as rig:
        rig.declare(fake=fake(tmp_path / "f", timeout_s=20))
        held = await rig.listed()
        before = [tool.name for tool in held.tools()]
        call = rig.scope().spawn(rig.call("mcp__fake__hang"), name="call").value
        await until(lambda: lines(tmp_path / "f", "calls") == ["hang"])
        clock.advance(20)
        with pytest.raises(ToolError, match="did not answer within 20 s"):
            await call
        assert [tool.name for tool in held.tools()] == before
        assert held.rows()[0]["status"] == "ready" and len(alive(tmp_path / "f")) == 1
        assert (await rig.call("mcp__fake__echo", text="still")).text == "still"
        await until(lambda: lines(tmp_path / "f", "cancelled"))


async def test_a_server_that_hangs_at_its_start_delays_nobody(tmp_path):
    clock = ManualClock()
    async with open_rig(tmp_path, clock) as rig:
        rig.declare(bad=fake(tmp_path / "f", "--mute"), good=fake(tmp_path / "g"))
        held = rig.session()  # waits for nothing: what is mute would be waited for in vain
        await until(lambda: "mcp__good__echo" in {tool.name for tool in held.tools()})
        assert (await rig.call("mcp__good__echo", text="x")).text == "x"
        await until(lambda: lines(tmp_path / "f", "clients"))
        assert {row["name"]: row["status"] for row in held.rows()}["bad"] == "starting"
        clock.advance(30)
        await until(lambda: held.rows()[0]["status"] == "degraded")
        assert "handshake" in held.rows()[0]["reason"]
        assert (await rig.call("mcp__good__echo", text="y")).text == "y"
