"""Case 76: timeout, stop and shutdown reach every descendant before the parent says that it is over."""

from __future__ import annotations

import asyncio

import pytest

from support.delegation import delegating, left, script_of, sub, tools
from tenure.config import Config
from tenure.settings import DelegationConfig
from tenure.testing.clock import ManualClock, settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.tools import scripted_tool
from tenure.tools.shell import Shell

RULES = Config(delegation=DelegationConfig(depth_max=3, timeout_s=500.0, stall_s=500.0))


def tree(leaf):
    """Depth 3; the deepest does `leaf`."""
    return script_of(
        delegating("goal of depth one"),
        {"text": "Never said."},
        on=[
            sub("goal of depth one", delegating("goal of depth two")),
            sub("goal of depth two", delegating("goal of depth three")),
            sub("goal of depth three", *leaf),
        ],
    )


class Effects:
    """Whatever a tool still does."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.tool = scripted_tool("slow", gate=self.gate)


@pytest.mark.parametrize("parked", ["model", "tool", "shell"])
@pytest.mark.parametrize("how", ["stop", "timeout", "close", "shutdown"])
@pytest.mark.timeout(20)  # without its guard it would hang
async def test_nothing_of_it_goes_on_after_the_parent(tmp_path, parked, how):
    effects, clock = Effects(), ManualClock()
    leaf = {
        "model": [{"gate": "leaf"}],
        "tool": [{"call": {"name": "slow", "arguments": {"text": "late"}}}],
        "shell": [
            {
                "call": {
                    "name": "shell",
                    "arguments": {
                        "command": f"echo $$ > {tmp_path}/pid; sleep 600; touch {tmp_path}/late"
                    },
                }
            }
        ],
    }[parked]
    script = tree(leaf)
    config = RULES
    made = tools(effects.tool, Shell(10_000, 600.0))
    async with open_test_gateway(tmp_path, script, tools=made, config=config, clock=clock) as gw:
        client, _ = await gw.client()
        session = await client.ready_session(auto_approve=True)
        await client.call("prompt.submit", session_id=session, text="go")
        if parked == "model":
            await script.gate("leaf").wait_reached()
        elif parked == "tool":
            await effects.gate.wait_parked()
        else:
            await _until(
                lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip()
            )
        assert len(gw.sessions.get(session).work.delegation.live) == 3
        await _end(gw, client, session, clock, how)
        ends = [event for event in client.seen if event.type == "message.complete"]
        if how in {"stop", "timeout"}:
            assert ends, "the turn is over"
        assert left(gw) == []
        assert [e for e in gw.root.census() if e.kind == "process"] == []
        effects.gate.release()
        script.gate("leaf").open()
        await settle()
        assert effects.tool.effects == []
        assert not (tmp_path / "late").exists()


async def _end(gw, client, session, clock, how):
    if how == "stop":
        await client.call("session.interrupt", session_id=session)
        await client.until("message.complete")
    elif how == "timeout":
        clock.advance(501.0)
        await _time_passes(clock, client)
    elif how == "close":
        closing = asyncio.ensure_future(client.call("session.close", session_id=session))
        await _time_passes(clock, closing)
        await _until(lambda: gw.sessions.find(session) is None)
    else:
        draining = asyncio.ensure_future(gw.sessions.drain("a test", 5.0))
        await _time_passes(clock, draining)


async def _time_passes(clock, what):
    """Graces of processes run out on the clock of the test."""
    waited = (
        what
        if isinstance(what, asyncio.Future)
        else asyncio.ensure_future(what.until("message.complete"))
    )
    async with asyncio.timeout(30):
        while not waited.done():
            await settle()
            await asyncio.wait({waited}, timeout=0.02)
    await waited


async def _until(condition):
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)
