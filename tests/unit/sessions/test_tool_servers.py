"""A whole gateway with tool servers: a turn that calls one, what is asked, what is shown."""

from __future__ import annotations

import json
import os
import signal
from contextlib import asynccontextmanager
from dataclasses import replace

from support.toolservers import alive, fake, lines
from tenure.agent.context import Gauge
from tenure.browser.lending import Browsers
from tenure.browser.protocol import Action, Rules
from tenure.browser.visit import Visits
from tenure.clock import SystemClock
from tenure.config import Config
from tenure.models.script import Script
from tenure.sandbox.choice import LocalOnly
from tenure.sessions.reaper import in_use
from tenure.settings import BrowserConfig, WebConfig
from tenure.testing.browser import FakeBrowser, FakePage, found_for_tests
from tenure.testing.gateway import open_test_gateway
from tenure.testing.waiting import until
from tenure.toolservers.lending import Folders, ToolServers
from tenure.toolservers.remote import LOGINS, Network


@asynccontextmanager
async def gateway(folder, script, servers, config=None):
    """A gateway whose default profile declares servers, and a session whose tools are known."""
    async with open_test_gateway(folder, Script(script), clock=SystemClock(),
                                 config=config or Config()) as gw:  # fmt: skip
        folders = Folders(folder / "home", folder / "cache", folder / "logs")
        folders.home.mkdir(exist_ok=True)
        (folders.home / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
        base = gw.ports.profiles.base
        home = ToolServers(
            gw.root, folders, LocalOnly(base.spawner),
            Network({}, folders.home / LOGINS, WebConfig),
            know=lambda _: None, output_bytes=lambda: 1_000,
        )  # fmt: skip
        gw.ports.profiles.base = replace(base, toolservers=home)
        client, _ = await gw.client()
        session = await client.ready_session()
        live = gw.sessions.get(session)
        await until(lambda: all(row["tools"] for row in live.info()["mcp_servers"]))
        yield gw, client, session


def call(tool, **arguments):
    return [{"call": {"name": tool, "arguments": arguments}}], [{"text": "done"}]


async def test_a_turn_calls_a_tool_server_after_a_question(tmp_path):
    script = [[{"call": {"name": "mcp__fake__add", "arguments": {"text": "one"}}}],
              [{"text": "done"}]]  # fmt: skip
    async with gateway(tmp_path, script, {"fake": fake(tmp_path / "f")}) as (gw, client, session):
        await client.call("prompt.submit", session_id=session, text="add")
        question = await client.until("approval.request", session)
        assert lines(tmp_path / "f", "effects") == []
        assert "mcp__fake__add" in json.dumps(question.payload)
        await client.call("approval.respond", session_id=session, choice="session")
        done = await client.until("message.complete", session)
        assert done.payload["state"] == "completed"
        assert lines(tmp_path / "f", "effects") == ["one"]
        info = gw.sessions.get(session).info()
        assert info["mcp_servers"][0]["status"] == "ready"
        assert "mcp__fake__echo" in info["tools"]["mcp: fake"]
        held = gw.census(session)
        assert any(line.startswith("tool server fake") for line in held)
        await client.call("session.close", session_id=session)
        await until(lambda: not alive(tmp_path / "f"))


async def test_what_is_allowed_is_not_asked(tmp_path):
    script = [[{"call": {"name": "mcp__fake__add", "arguments": {"text": "one"}}}],
              [{"text": "done"}]]  # fmt: skip
    servers = {"fake": fake(tmp_path / "f", allow=["a*"])}
    async with gateway(tmp_path, script, servers) as (_, client, session):
        await client.call("prompt.submit", session_id=session, text="add")
        done = await client.until("message.complete", session)
        assert done.payload["state"] == "completed"
        assert lines(tmp_path / "f", "effects") == ["one"]


async def test_a_rule_of_the_user_is_stronger(tmp_path):
    from tenure.config import ApprovalRule, ApprovalsConfig

    rule = ApprovalRule(decision="deny", tool="mcp__fake__*")
    script = [[{"call": {"name": "mcp__fake__add", "arguments": {"text": "one"}}}],
              [{"text": "done"}]]  # fmt: skip
    servers = {"fake": fake(tmp_path / "f", allow=["*"])}
    config = Config(approvals=ApprovalsConfig(rules=(rule,)))
    async with gateway(tmp_path, script, servers, config) as (_, client, session):
        await client.call("prompt.submit", session_id=session, text="add")
        await client.until("message.complete", session)
        assert lines(tmp_path / "f", "effects") == []


async def test_tools_that_are_found_can_be_called_in_the_same_turn(tmp_path):
    script = [[{"call": {"name": "tool_search", "arguments": {"query": "echo"}}}],
              [{"call": {"name": "mcp__fake__echo", "arguments": {"text": "hello"}}}],
              [{"text": "done"}]]  # fmt: skip
    servers = {"fake": fake(tmp_path / "f", "--tools=50", allow=["*"])}
    async with gateway(tmp_path, script, servers) as (_, client, session):
        await client.call("prompt.submit", session_id=session, text="echo")
        done = await client.until("message.complete", session)
        assert done.payload["state"] == "completed"
        assert lines(tmp_path / "f", "calls") == ["echo"]


async def test_a_session_stays_while_a_server_of_its_own_that_it_has_called_runs(tmp_path):
    script = call("mcp__fake__add", text="one")
    servers = {"fake": fake(tmp_path / "f", allow=["*"])}
    async with gateway(tmp_path, list(script), servers) as (gw, client, session):
        live = gw.sessions.get(session)
        assert alive(tmp_path / "f") and not live.has_background  # it was only listed
        await client.call("prompt.submit", session_id=session, text="add")
        await client.until("message.complete", session)
        assert live.has_background and in_use(live)
        os.kill(alive(tmp_path / "f")[0], signal.SIGKILL)
        await until(lambda: not live.has_background)


async def test_what_fills_the_window_counts_tools_of_servers(tmp_path):
    async with gateway(tmp_path, [], {"fake": fake(tmp_path / "f")}) as (gw, client, session):
        live = gw.sessions.get(session)
        shown = await client.call("session.context_breakdown", session_id=session)
        (tools,) = (part["tokens"] for part in shown["categories"] if part["name"] == "tools")
        alone = Gauge().prefix("", [tool.spec for tool in live.agent.tools])
        more = Gauge().prefix("", [tool.spec for tool in live.work.server_tools()])
        assert more > 50 and abs(tools - alone - more) <= 2


async def test_what_is_wrong_with_a_file_of_servers_is_shown(tmp_path):
    servers = {"fake": fake(tmp_path / "f", env={"A": "${HOME}"})}
    async with gateway(tmp_path, [], servers) as (gw, _, session):
        told = gw.sessions.get(session).info()["config_warning"]
        assert "${HOME} stays as it is written" in told


async def test_a_session_stays_while_it_has_pages_open(tmp_path, root):
    async def start(_scope, _config):
        return FakeBrowser({"http://a.test/": FakePage("A")}, tmp_path)

    browsers = Browsers(root.child("browsers"), start, found_for_tests)
    async with open_test_gateway(tmp_path, Script([])) as gw:
        client, _ = await gw.client()
        live = gw.sessions.get(await client.ready_session())
        assert not live.has_background
        visits = Visits.of(live.tool_state, live.scope, live.id, browsers)
        await visits.act(Action("navigate", "http://a.test/"), BrowserConfig(), Rules())
        assert live.has_background


async def test_in_plan_mode_no_tool_of_a_server_runs_whatever_it_allows(tmp_path):
    script = [[{"call": {"name": "mcp__fake__add", "arguments": {"text": "one"}}}],
              [{"text": "done"}]]  # fmt: skip
    server = fake(tmp_path / "f", allow=["*"])
    async with gateway(tmp_path, script, {"fake": server}) as (_, client, session):
        await client.call("plan.mode", session_id=session, on=True)
        await client.call("config.set", session_id=session, key="yolo", value="on")
        await client.call("prompt.submit", session_id=session, text="add")
        done = await client.until("message.complete", session)
        assert done.payload["denied"] == 1 and lines(tmp_path / "f", "effects") == []
