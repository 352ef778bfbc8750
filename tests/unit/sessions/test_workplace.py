"""Where a session's commands run: chosen when it is created, shown, kept, asked about."""

from __future__ import annotations

import re
import shutil
from types import SimpleNamespace

import pytest

from support.boxes import needs_bwrap
from support.sshd import needs_sshd, sshd
from tenure.config import ApprovalRule, ApprovalsConfig, Config, LimitsConfig
from tenure.errors import SandboxUnavailable
from tenure.lifecycle.scope import Scope
from tenure.models.script import Script
from tenure.processes.spawn import Spawner
from tenure.sandbox import bubblewrap
from tenure.sandbox.base import UNCONFINED
from tenure.sandbox.choice import Asked, Chooser, Machine
from tenure.sandbox.docker import Engine
from tenure.sessions.containers import ContainerRows
from tenure.sessions.workplace import Workplace
from tenure.settings import DockerConfig, SandboxConfig, SshConfig
from tenure.testing.clock import ManualClock, settle
from tenure.testing.engine import write_engine
from tenure.testing.gates import Gate
from tenure.testing.gateway import open_test_gateway
from tenure.testing.store import MemoryStore
from tenure.tools.registry import tools_for


def shell(command, **more):
    return {"call": {"name": "shell", "arguments": {"command": command, **more}}}


def gateway(folder, *steps, config=None, **more):
    return open_test_gateway(
        folder, Script(list(steps)), config=config or Config(), tools=tools_for, boxes=True, **more
    )


async def ready(client, **params):
    opened = await client.call("session.create", **params)
    return opened["session_id"], (await client.until("session.info")).payload


@needs_bwrap
async def test_a_command_runs_in_a_box_and_nothing_asks(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    steps = [shell("echo $PPID > made; echo x > ../out; ls ../home"), {"text": "Done."}]
    async with gateway(tmp_path, *steps) as gw:
        client, _ = await gw.client()
        session, info = await ready(client, cwd=str(work), interactive=False)
        assert info["sandbox"]["kind"] == "bubblewrap" and info["sandbox"]["confined"] is True
        assert info["sandbox"]["root"] == str(work)
        assert info["approval_mode"].startswith("auto")
        await client.call("prompt.submit", session_id=session, text="go")
        done = (await client.until("tool.complete")).payload
        await client.until("message.complete")
        assert int((work / "made").read_text()) < 10 and not (tmp_path / "out").exists()
        assert "No such file" in done["result"]
        status = await client.call("session.status", session_id=session)
        assert "in a box on this machine, without network" in status["output"]


@needs_bwrap
async def test_the_network_is_offered_as_a_question_and_named_with_its_place(tmp_path):
    steps = [shell("echo inside", network=True), {"text": "Done."}]
    async with gateway(tmp_path, *steps) as gw:
        client, _ = await gw.client()
        session, _ = await ready(client)
        tools = {tool.name: tool for tool in gw.sessions.get(session).agent.tools}
        assert "network" in tools["shell"].spec.parameters["properties"]
        assert "network" in tools["background"].spec.parameters["properties"]
        await client.call("prompt.submit", session_id=session, text="go")
        asked = (await client.until("approval.request")).payload
        assert "network" in asked["description"] and "box" in asked["place"]
        await client.call("approval.respond", session_id=session, choice="once")
        assert (await client.until("tool.complete")).payload["result"] == "inside\n"
        await client.until("message.complete")


@needs_bwrap
@pytest.mark.parametrize("sandbox", [SandboxConfig(network=True), SandboxConfig(kind="local")])
async def test_it_is_not_offered_where_there_is_nothing_to_ask_for(tmp_path, sandbox):
    async with gateway(tmp_path, config=Config(sandbox=sandbox)) as gw:
        client, _ = await gw.client()
        session, _ = await ready(client)
        for tool in gw.sessions.get(session).agent.tools:
            assert "network" not in tool.spec.parameters.get("properties", {})


@needs_bwrap
async def test_rules_ask_without_a_box_and_where_the_mode_says_so(tmp_path):
    ask = Config(approvals=ApprovalsConfig(mode="ask"))
    steps = [shell("touch made"), {"text": "Done."}] * 2
    for config, params in ((ask, {}), (Config(), {"sandbox": "local"})):
        async with gateway(tmp_path, *steps, config=config) as gw:
            client, _ = await gw.client()
            session, info = await ready(client, **params)
            assert info["approval_mode"] == "ask"
            await client.call("prompt.submit", session_id=session, text="go")
            asked = (await client.until("approval.request")).payload
            kind = info["sandbox"]["kind"]
            assert ("unconfined" in asked["place"]) == (kind == "local")
            await client.call("approval.respond", session_id=session, choice="deny")
            await client.until("message.complete")


@needs_bwrap
async def test_a_deny_beats_the_box(tmp_path):
    rules = (ApprovalRule("deny", tool="shell", command="touch *"),)
    steps = [shell("touch made"), {"text": "Done."}]
    config = Config(approvals=ApprovalsConfig(rules=rules))
    async with gateway(tmp_path, *steps, config=config) as gw:
        client, _ = await gw.client()
        session, _ = await ready(client)
        await client.call("prompt.submit", session_id=session, text="go")
        assert "Denied" in (await client.until("tool.complete")).payload["result"]
        await client.until("message.complete")
        assert not (tmp_path / "made").exists()


@needs_bwrap
async def test_a_deny_holds_for_what_a_link_in_the_folder_leads_to(tmp_path):
    work = tmp_path / "work"
    (work / "secrets").mkdir(parents=True)
    (work / "secrets/key").write_text("the key")
    (work / "notes").symlink_to("secrets/key")
    rules = (ApprovalRule("deny", path="secrets/**"),)
    steps = [{"call": {"name": "read", "arguments": {"path": "notes"}}}, {"text": "Done."}]
    config = Config(approvals=ApprovalsConfig(rules=rules))
    async with gateway(tmp_path, *steps, config=config) as gw:
        client, _ = await gw.client()
        session, _ = await ready(client, cwd=str(work))
        await client.call("prompt.submit", session_id=session, text="go")
        result = (await client.until("tool.complete")).payload["result"]
        assert result == "Denied: 'notes' leads to 'secrets/key'; a rule denies that."
        await client.until("message.complete")


@needs_bwrap
@pytest.mark.parametrize("kind", ["bubblewrap", "local"])
async def test_the_whole_of_a_cut_output_can_be_read_by_its_session_alone(tmp_path, kind):
    """By the tool and, where commands are confined, read-only and nothing beside it."""
    config, script = Config(limits=LimitsConfig(tool_output_bytes_max=2_000)), Script([])
    work = tmp_path / "work"
    work.mkdir()
    ports = {"config": config, "tools": tools_for, "boxes": True}
    async with open_test_gateway(tmp_path, script, **ports) as gw:
        client, _ = await gw.client()

        async def result(session, step):
            script._steps = Script([step, {"text": "Done."}])._steps
            script._places.clear()
            await client.call("prompt.submit", session_id=session, text="go")
            told = (await client.until("tool.complete", session)).payload["result"]
            await client.until("message.complete", session)
            return told

        def read(path, **more):
            return {"call": {"name": "read", "arguments": {"path": path, **more}}}

        one, _ = await ready(client, cwd=str(work), sandbox=kind, auto_approve=True)
        cut = await result(one, shell("seq 1000 9999"))
        whole = re.search(r"/\S+\.txt", cut).group()
        assert (await result(one, read(whole, offset=4_001, limit=1))).startswith("5000\n")
        other, _ = await ready(client, cwd=str(work), sandbox=kind, auto_approve=True)
        await result(other, shell("seq 1000 9999"))
        told = await result(one, shell(f"grep -c . {whole}; touch {whole}; ls {tmp_path}/spill"))
        if kind == "bubblewrap":
            assert re.fullmatch(rf"9000\ntouch: .*Read-only.*\n{one}\n", told)
            assert "No such file" in await result(other, shell(f"cat {whole}"))
        assert "Denied" in await result(other, read(whole))
        name = whole.rpartition("/")[2]
        assert "climbs" in await result(other, read(f"{tmp_path}/spill/{other}/../{one}/{name}"))
        (tmp_path / f"spill/{one}/link").symlink_to(f"../{other}/{name}")
        assert "leads out" in await result(one, read(f"{tmp_path}/spill/{one}/link"))
        write = {"call": {"name": "write", "arguments": {"path": whole, "content": "x"}}}
        assert "Denied" in await result(one, write)


async def test_without_bubblewrap_commands_run_unconfined_and_it_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(bubblewrap, "PROGRAM", "bwrap-is-missing")
    async with gateway(tmp_path) as gw:
        client, _ = await gw.client()
        _, info = await ready(client)
        assert info["sandbox"]["kind"] == "local" and info["approval_mode"] == "ask"
        assert "no such program" in info["sandbox"]["about"]


async def test_one_that_was_asked_for_and_cannot_be_had_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(bubblewrap, "PROGRAM", "bwrap-is-missing")
    async with gateway(tmp_path) as gw:
        client, _ = await gw.client()
        opened = await client.call("session.create", sandbox="bubblewrap")
        error = (await client.until("error", opened["session_id"])).payload
        assert error["code"] == 5081 and "bwrap-is-missing" in error["message"]


@needs_bwrap
async def test_the_probe_runs_once_for_all_sessions(tmp_path, monkeypatch):
    tried = []
    original = bubblewrap.probe

    async def counted(*args):
        tried.append(args)
        return await original(*args)

    monkeypatch.setattr("tenure.sandbox.choice.probe", counted)
    async with gateway(tmp_path) as gw:
        client, _ = await gw.client()
        for _ in range(3):
            await ready(client)
    assert len(tried) == 1


@needs_bwrap
async def test_a_session_keeps_its_sandbox_when_it_comes_back(tmp_path):
    store = MemoryStore()
    async with gateway(tmp_path, store=store) as gw:
        client, _ = await gw.client()
        local, _ = await ready(
            client, sandbox="local", messages=[{"role": "user", "content": "hi"}]
        )
        await client.call("session.close", session_id=local)
        await client.call("session.resume", session_id=local)
        info = (await client.until("session.info", local)).payload
        assert info["sandbox"]["kind"] == "local"
        branch = await client.call("session.branch", session_id=local)
        info = (await client.until("session.info", branch["session_id"])).payload
        assert info["sandbox"]["kind"] == "local"


@needs_bwrap
async def test_the_end_of_a_session_removes_its_folder(tmp_path):
    steps = [shell("echo x > /tmp/f"), {"text": "Done."}]
    async with gateway(tmp_path, *steps) as gw:
        client, _ = await gw.client()
        session, _ = await ready(client)
        await client.call("prompt.submit", session_id=session, text="go")
        await client.until("message.complete")
        folder = tmp_path / "home/boxes" / session
        assert (folder / "tmp/f").exists()
        assert "sandbox" in " ".join(gw.census(session))
        await client.call("session.close", session_id=session)
        assert not folder.exists()


def test_bubblewrap_is_there_for_these_tests():
    """On a machine of ours it is installed; a skip of all the above must not go unseen."""
    assert shutil.which("bwrap"), "apt-get install bubblewrap"


@needs_sshd
async def test_a_session_on_another_machine(tmp_path):
    """Commands and files are over there; nothing here is saved, read or changed."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "AGENTS.md").write_text("Of this machine.")
    steps = [
        shell("pwd; touch by-command"),
        {"call": {"name": "write", "arguments": {"path": "by-tool", "content": "x"}}},
        {"text": "Done."},
    ]
    with sshd(tmp_path / "sshd") as server:
        ssh = SshConfig(
            "127.0.0.1", server.port, server.user, str(there), str(server.key),
            fingerprint=server.fingerprint,
        )  # fmt: skip
        config = Config(sandbox=SandboxConfig(kind="ssh", ssh=ssh))
        async with gateway(tmp_path, *steps, config=config) as gw:
            client, _ = await gw.client()
            session, info = await ready(client, cwd=str(here), auto_approve=True)
            assert info["sandbox"]["kind"] == "ssh" and info["sandbox"]["root"] == str(there)
            assert info["instructions"] == [] and info["approval_mode"] == "yes"
            agent = gw.sessions.get(session).agent
            assert str(there) in agent.prompt.text and str(here) not in agent.prompt.text
            await client.call("prompt.submit", session_id=session, text="go")
            assert (await client.until("tool.complete")).payload["result"] == f"{there}\n"
            await client.until("message.complete")
            opened = await client.call("terminal.open", session_id=session, command="pwd")
            await client.until("terminal.close")
            one = {"session_id": session, "terminal_id": opened["terminal_id"]}
            assert str(there) in (await client.call("terminal.read", **one))["text"]
            assert sorted(path.name for path in there.iterdir()) == ["by-command", "by-tool"]
            assert [path.name for path in here.iterdir()] == ["AGENTS.md"]
            assert not (tmp_path / "home/checkpoints").exists()
            await client.call("session.close", session_id=session)


async def test_ssh_without_a_place_is_told(tmp_path):
    async with gateway(tmp_path, config=Config(sandbox=SandboxConfig(kind="ssh"))) as gw:
        client, _ = await gw.client()
        info = (await client.call("session.create"))["info"]
        assert "sandbox.ssh.host" in info["credential_warning"]


async def test_a_container_gets_no_folder_that_holds_a_home(tmp_path):
    double = write_engine(tmp_path / "engine")
    docker = DockerConfig(program=str(double.path))
    config = Config(sandbox=SandboxConfig(kind="docker", docker=docker))
    (tmp_path / "work").mkdir()
    rows = ContainerRows(MemoryStore(), ManualClock(), "me-1")
    scope = Scope.root("test", ManualClock())
    spawner = Spawner(instance="me-1", environ={}, clock=scope.clock)
    engine = Engine(spawner, scope, "me", "default", docker)
    machine = Machine(tmp_path / "user", tmp_path / "home", tmp_path / "boxes", tmp_path / "spill")
    chooser = Chooser(scope, spawner, machine, lambda: config.sandbox, containers=(engine, rows))
    with pytest.raises(SandboxUnavailable, match="with its keys"):
        await chooser.make(Asked("s1", tmp_path), scope)
    made = await chooser.make(Asked("s1", tmp_path / "work"), scope)
    assert made.confinement.kind == "docker" and made.root == tmp_path / "work"
    double.rule("down")
    with pytest.raises(SandboxUnavailable, match=r"docker cannot be used.*daemon running\?"):
        await chooser.make(Asked("s1", tmp_path / "work"), scope)
    await scope.close()


# --- with sandboxes by hand ----------------------------------------------------------------------


class Places:
    """Makes sandboxes that are nothing but what they confine; each waits at the gate."""

    def __init__(self, *, confined: bool = True) -> None:
        self.gate, self.confinement = Gate(), UNCONFINED._replace(confined=confined)
        self.made: list[SimpleNamespace] = []

    async def make(self, _asked, _scope):
        box = SimpleNamespace(confinement=self.confinement)
        self.made.append(box)
        await self.gate.park()
        return box


class Servers:
    """A profile whose folder declares tool servers."""

    def declares(self, _cwd) -> bool:
        raise AssertionError("a session that is being closed begins none")


def workplace(scope, places, *, mode="auto", servers=None) -> Workplace:
    config = Config(approvals=ApprovalsConfig(mode=mode))
    ports = SimpleNamespace(sandboxes=places, toolservers=servers, config=lambda: config)
    journal = SimpleNamespace(epoch=1)
    session = SimpleNamespace(
        id="s", ports=ports, settings={}, cwd="/", journal=journal, scope=scope
    )
    return Workplace(session)


async def test_two_that_open_it_at_once_have_the_same_and_whoever_comes_later(root):
    places = Places()
    work = workplace(root, places)
    both = [root.spawn(work.open(), name="open").value for _ in range(2)]
    await settle()
    places.gate.release()
    await settle()
    assert both[0].result() is both[1].result() is await work.open()
    assert len(places.made) == 2, "the slower one ends with the session"


@pytest.mark.parametrize(
    ("confined", "mode", "passes"),
    [(True, "auto", True), (True, "ask", False), (False, "auto", False)],
)
async def test_no_question_is_needed_where_it_is_confined_and_the_mode_says_so(
    root, confined, mode, passes
):
    places = Places(confined=confined)
    places.gate.release()
    work = workplace(root, places, mode=mode)
    assert not work.confined, "before it is open"
    await work.open()
    assert work.confined is passes


async def test_a_session_that_is_being_closed_begins_no_tool_servers(root):
    places = Places()
    places.gate.release()
    work = workplace(root, places, servers=Servers())
    root.claim("a test")
    await work.open()
    assert work.servers is None
