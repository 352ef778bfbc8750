"""Another machine by SSH: who it is, what ends there, what is not shown there."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from support.boxes import read_until
from support.sshd import needs_sshd, sshd
from tenure.errors import ProcessError, SandboxUnavailable, ToolError
from tenure.processes.procfs import read_stat
from tenure.sandbox.base import Order, unruled
from tenure.sandbox.ssh_link import Remote
from tenure.testing.clock import ManualClock
from tenure.tools.base import ToolContext
from tenure.tools.files import Edit, Read, Write
from tenure.tools.find import Glob, List, Search
from tenure.tools.shell import Shell

S55123 = f"55123{os.getpid()}"
S55124 = f"55124{os.getpid()}"
S55125 = f"55125{os.getpid()}"
pytestmark = needs_sshd


@pytest.fixture
async def server(tmp_path, ground):
    with sshd(tmp_path / "sshd") as server:
        yield server
        await ground.session.close()


def sleepers(seconds):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except OSError:
            continue
        if words[:2] == ["sleep", seconds]:
            found.append(int(pid))
    return found


# --- who it is --------------------------------------------------------------------------------------


async def test_a_pinned_fingerprint_is_enough(ground, server):
    box = ground.ssh(server, known_hosts=(), fingerprint=server.fingerprint)
    assert (await ground.run(box, "echo hi")).text == "hi\n"


async def test_another_key_than_the_known_one_is_refused(ground, server, tmp_path):
    other = (server.key.parent / "other.pub").read_text().split()[:2]
    wrong = tmp_path / "wrong_hosts"
    wrong.write_text(f"[127.0.0.1]:{server.port} {' '.join(other)}\n")
    empty = tmp_path / "empty"
    empty.write_text("")
    for place in (
        {"known_hosts": (wrong,)},
        {"known_hosts": (empty,)},
        {"known_hosts": ()},
        {"fingerprint": "SHA256:" + "x" * 43},
    ):
        with pytest.raises(SandboxUnavailable, match="not the one that is known"):
            await ground.run(ground.ssh(server, **place), "touch reached")
    assert not (ground.work / "reached").exists()


async def test_a_key_that_it_does_not_accept(ground, server):
    with pytest.raises(SandboxUnavailable, match="none of the keys"):
        await ground.run(ground.ssh(server, keys=(server.key.parent / "other",)), "true")


async def test_a_machine_that_does_not_answer_is_told_and_tried_again(ground, server):
    box = ground.ssh(server, port=1)
    with pytest.raises(SandboxUnavailable, match="cannot be used"):
        await ground.run(box, "true")
    box._place = ground.ssh(server)._place
    assert (await ground.run(box, "echo better")).text == "better\n"


async def test_no_agent_is_forwarded(ground, server):
    assert (await ground.run(ground.ssh(server), "echo [$SSH_AUTH_SOCK]")).text == "[]\n"


async def test_nothing_is_connected_before_the_first_use_and_then_once(ground, server):
    box = ground.ssh(server)
    assert ground.session.census() == []
    await asyncio.gather(*(ground.run(box, "true") for _ in range(3)))
    assert [e.kind for e in ground.session.census() if "ssh" in e.kind] == ["ssh connection"]


# --- what ends there --------------------------------------------------------------------------------


async def test_a_stop_reaches_what_has_left_the_session(ground, server):
    command = f"setsid sleep {S55123} & (sleep {S55123} &) ; env -i sleep {S55123} & echo ready; sleep {S55123}"
    process = await ground.start(ground.ssh(server), command)
    await read_until(process, "ready")
    while len(sleepers(S55123)) < 4:
        await asyncio.sleep(0.01)
    await process.stop()
    assert sleepers(S55123) == []


async def test_a_lost_connection_is_told_and_the_next_command_makes_another(ground, server):
    box = ground.ssh(server)
    process = await ground.start(box, f"echo ready; sleep {S55124}")
    await read_until(process, "ready")
    serving = [
        int(pid)
        for pid in Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        .read_text()
        .split()
    ]
    for pid in serving:
        os.kill(pid, signal.SIGKILL)
    assert await process.wait() == 255
    with pytest.raises(ProcessError):
        await process.write(b"x")
    assert (await ground.run(box, "echo again")).text == "again\n"
    for pid in sleepers(S55124):
        os.kill(pid, signal.SIGKILL)
    lost = [entry for entry in ground.turn.census() if entry.kind == "process"]
    await process.stop()
    assert len(lost) == 1 and ground.turn.census() == []


async def test_what_an_earlier_gateway_has_left_of_the_session_is_ended(ground, server):
    def left(label):
        return {**os.environ, "TENURE_OWNER": label}

    import subprocess

    ours = subprocess.Popen(["sleep", S55125], env=left(f"old-1/{ground.session_id}/4"))
    another = subprocess.Popen(["sleep", S55125], env=left("old-1/s2/4"))
    try:
        await ground.run(ground.ssh(server), "true")
        assert ours.wait(30) == -signal.SIGKILL
        assert another.poll() is None
    finally:
        another.kill()
        another.wait()


async def test_output_that_nobody_reads_is_bounded(ground, server):
    process = await ground.start(ground.ssh(server), "yes")
    await read_until(process, "y\ny\n")
    await asyncio.sleep(0.3)
    assert len(process._kept) < 3 * 1024 * 1024
    await process.stop()


async def test_variables_are_in_no_list_of_processes(ground, server):
    command = "echo ready; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[h]ushhush'; true"
    process = await ground.start(ground.ssh(server), command, env={"SECRET": "hushhush"})
    said = await read_until(process, "\n0\n")
    assert said.endswith("\n0\n")
    await process.stop()


# --- files ------------------------------------------------------------------------------------------


@pytest.fixture
def call(ground, server):
    box = ground.ssh(server)

    async def call(tool, judge=unruled, **arguments):
        ctx = ToolContext(
            session_id="s1", turn_id="t1", call_id="c1", cwd=Path("/nowhere"), scope=ground.turn,
            session=ground.session, spawner=ground.spawner, clock=ManualClock(),
            spill_dir=ground.base / "spill", output=lambda _: None, state={}, sandbox=box,
        )  # fmt: skip
        ctx.judge = judge
        return await tool.call(json.dumps(arguments), ctx)

    return call


async def test_every_file_tool_works_there(ground, call):
    assert (await call(Write(), path="src/a.py", content="one\ntwo\n")).text.startswith("Created")
    assert (ground.work / "src/a.py").read_text() == "one\ntwo\n"
    (ground.work / "src/a.py").chmod(0o750)
    assert "1 occurrence" in (await call(Edit(), path="src/a.py", old="two", new="three")).text
    assert (ground.work / "src/a.py").stat().st_mode & 0o777 == 0o750
    assert (await call(Read(9_000), path="src/a.py", offset=2)).text == "three\n"
    assert (await call(List(), path=".")).text.endswith("src/")
    assert (await call(Glob(), pattern="*.py")).text == "src/a.py"
    assert (await call(Search(9_000), pattern="thr.e", path="src")).text == "src/a.py:2:three\n"
    assert (await call(Search(9_000), pattern="nothing")).text == "(no matches)"
    assert (await call(Shell(9_000, 60), command="cat src/a.py")).text == "one\nthree\n"
    assert (await call(Write(), path="src/a.py", content="")).text.startswith("Replaced")
    assert list((ground.work / "src").iterdir()) == [ground.work / "src/a.py"]


async def test_nothing_outside_is_reached(ground, call):
    (ground.work / "key").symlink_to(ground.user / ".ssh/id_ed25519")
    (ground.work / "up").symlink_to(ground.user)
    (ground.work / "in").mkdir()
    (ground.work / "link").symlink_to("in")
    for path in ("key", "up/.ssh/id_ed25519", "../user/.ssh/id_ed25519", str(ground.user), "up"):
        for tool in (Read(9_000), List()):
            with pytest.raises(ToolError):
                await call(tool, path=path)
        with pytest.raises(ToolError):
            await call(Write(), path=f"{path}/x" if path == "up" else path, content="broken")
    with pytest.raises(ToolError):
        await call(Search(9_000), pattern="key", path="../user")
    with pytest.raises(ToolError):
        await call(Glob(), pattern="*", path="/etc")
    assert (ground.user / ".ssh/id_ed25519").read_text() == "the user's key"
    await call(Write(), path="link/f", content="x")
    assert (ground.work / "in/f").read_text() == "x"


async def test_rules_hold_for_what_a_link_leads_to(ground, call):
    """`call` gives no judge; this one denies what is in a folder."""
    (ground.work / "kept").mkdir()
    (ground.work / "kept/f").write_text("the key")
    (ground.work / "link").symlink_to("kept")
    for tool, arguments in (
        (Read(9_000), {"path": "link/f"}),
        (Write(), {"path": "link/f", "content": "x"}),
        (Write(), {"path": "link/new/f", "content": "x"}),
        (Edit(), {"path": "link/f", "old": "key", "new": "x"}),
        (List(), {"path": "link"}),
        (Glob(), {"path": "link", "pattern": "*"}),
        (Search(9_000), {"path": "link", "pattern": "key"}),
    ):
        with pytest.raises(ToolError, match="a rule denies that"):
            await call(tool, judge=lambda path: "deny" * path.startswith("kept"), **arguments)
    with pytest.raises(ToolError, match="a rule denies that"):
        deny = {"kept/new/f": "deny"}
        await call(Write(), path="link/new/f", content="x", judge=lambda path: deny.get(path, ""))
    assert (
        await call(Glob(), judge=lambda path: "deny" * (path != "."), pattern="**")
    ).text == "(no files match)"
    assert [path.name for path in (ground.work / "kept").iterdir()] == ["f"]
    assert (await call(Read(9_000), path="link/f")).text == "the key"


async def test_what_cannot_be_done_is_told(ground, call):
    (ground.work / "big").write_bytes(b"x" * (9 * 1024 * 1024))
    for tool, arguments, told in (
        (Read(9_000), {"path": "none"}, "There is no"),
        (Read(9_000), {"path": "."}, "no regular file"),
        (Read(9_000), {"path": "big"}, "over"),
        (Edit(), {"path": "none", "old": "a", "new": "b"}, "There is no"),
        (List(), {"path": "none"}, "There is no"),
    ):
        with pytest.raises(ToolError, match=told):
            await call(tool, **arguments)


def test_a_dead_process_is_none():
    assert read_stat(2**22 + 1) is None and Order(("true",)).stdin == "null"


# --- what a server may do ---------------------------------------------------------------------------


class Late:
    """A connection whose server has told the exit, and sends the output after it."""

    lost = False

    def __init__(self, *pieces):
        self.pieces = list(pieces)
        self.remote = Remote(self, "label", on_terminal=False)
        self.remote.exit_status_received(3)

    async def say(self, command):
        if not self.pieces:
            raise ProcessError("The connection by SSH has failed.")
        if piece := self.pieces.pop(0):
            self.remote.data_received(piece, None)
        return ""


@pytest.mark.parametrize("pieces", [(b"hello\n", b"bad\n", b""), (b"hello\n", b"bad\n")])
async def test_output_may_come_after_the_exit_is_told(pieces):
    """Only a request that brings none ends it; a connection that is lost ends it too."""
    late = Late(b"tenure:1\n" + pieces[0], *pieces[1:])
    assert [await late.remote.read() for _ in range(3)] == [b"hello\n", b"bad\n", b""]
