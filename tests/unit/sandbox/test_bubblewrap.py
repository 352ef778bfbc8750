"""Boxes: what is to be seen in them, what is not, and what stays when they end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from pathlib import Path

import pytest

from support.boxes import needs_bwrap, read_all, read_until
from tenure.errors import ProcessError, ToolError
from tenure.sandbox import bubblewrap
from tenure.sandbox.base import Order
from tenure.sandbox.bubblewrap import Layout, box_arguments, probe, remove_tree, why_no_box
from tenure.sandbox.folders import own_folders
from tenure.tools.base import ToolContext
from tenure.tools.files import Edit, Read, Write
from tenure.tools.find import Glob, List, Search

S77123 = f"77123{os.getpid()}"
S77124 = f"77124{os.getpid()}"
pytestmark = needs_bwrap


async def test_the_probe_says_whether_there_can_be_boxes(ground, monkeypatch):
    assert await probe(ground.spawner, ground.turn) == ""
    monkeypatch.setattr(bubblewrap, "PROGRAM", "bwrap-is-missing")
    assert "no such program" in await probe(ground.spawner, ground.turn)
    monkeypatch.setattr(bubblewrap, "PROGRAM", "false")
    assert await probe(ground.spawner, ground.turn) == "exit code 1"
    assert ground.root.census() == []


@pytest.mark.parametrize(
    "command",
    [
        "echo x > {base}/outside; false",
        "echo x > /usr/outside",
        "echo x > /etc/outside",
        "rm -rf {user}/.ssh && test ! -e {user}/.ssh && false",
        "ln -s {user}/.ssh/id_ed25519 link && cat link",
        "ln -s {base}/user up && cat up/.tenure/token",
        "cat {home}/token",
        "cat {user}/.ssh/id_ed25519",
        "cat /etc/shadow | grep root",
        "cat /etc/ssh/ssh_host_*_key 2>&1 | grep -q PRIVATE",
        "kill -9 {gateway}",
        "ls /proc/{gateway}/root",
        "mount --bind /usr /mnt",
        "mknod disk b 8 0",
        "cat /proc/kcore | head -c 1 | grep -q .",
        "v=$(cat /proc/sys/kernel/panic) && echo $v > /proc/sys/kernel/panic",
        "exec 3<>/dev/tcp/127.0.0.1/{port}",
    ],
)
async def test_no_command_leaves_the_box(ground, command):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        text = command.format(
            base=ground.base, user=ground.user, home=ground.home, gateway=os.getpid(), port=port
        )
        said = await ground.run(ground.box(), text)
    assert said.status != 0, said.text
    assert "key" not in said.text and "token" not in said.text.replace("/token", "")
    assert not (ground.base / "outside").exists()
    assert (ground.user / ".ssh/id_ed25519").read_text() == "the user's key"


async def test_what_is_piped_is_the_command_s_alone(ground):
    """Whoever reads its output, or writes its input, learns that the command has closed it."""
    lasting = "read line; echo got $line; exec >&- <&-; echo alive >&2; exec sleep 1000"
    process = await ground.start(ground.box(), lasting, stdin="pipe", stderr="pipe")
    await process.write(b"one\n")
    assert await read_all(process) == "got one\n"
    assert await process.stderr.read() == b"alive\n"
    with pytest.raises(ProcessError):
        for _ in range(100):
            await process.write(b"x" * 65_536)
    assert process.returncode is None and await process.count_left() == 1


async def test_no_descriptor_but_its_three_reaches_a_piped_command(ground):
    process = await ground.start(
        ground.box(), "ls /proc/self/fd; exit 3", stdin="pipe", stderr="pipe"
    )
    assert (await read_all(process)).split() == ["0", "1", "2", "3"]  # 3: ls reads the folder
    assert await process.wait() == 3


async def test_no_capability_is_left(ground):
    said = await ground.run(ground.box(), "grep -E 'Cap(Prm|Eff|Bnd)' /proc/self/status")
    assert {int(line.split()[1], 16) for line in said.text.splitlines()} == {0}


async def test_the_network_is_there_where_it_is_let_in(ground):
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo reached"
        assert (await ground.run(ground.box(), command)).status != 0
        assert (await ground.run(ground.box(), command, network=True)).text == "reached\n"
        assert (await ground.run(ground.box(network=True), command)).text == "reached\n"


async def test_one_command_finds_what_another_has_left_and_the_end_removes_it(ground):
    box = ground.box()
    await ground.run(box, "echo one > /tmp/a; echo two > $HOME/b; mkdir -m 0 /tmp/closed")
    assert (await ground.run(box, "cat /tmp/a $HOME/b; ls -A $HOME")).text == "one\ntwo\nb\n"
    private = ground.home / "boxes/s1"
    assert (private / "tmp/a").read_text() == "one\n"
    assert private.stat().st_mode & 0o077 == 0
    assert not (ground.user / "b").exists() and not Path("/tmp/a").exists()
    await ground.session.close()
    assert not private.exists()


async def test_nothing_is_made_before_the_first_command(ground):
    ground.box()
    assert not (ground.home / "boxes").exists() and ground.session.census() == []


async def test_a_home_as_working_directory_hides_its_secrets(ground):
    (ground.user / ".netrc").write_text("machine password")
    (ground.user / "notes").write_text("readable")
    box = ground.box(root=ground.user)
    said = await ground.run(box, "cat notes; ls -A .ssh .tenure; cat .netrc; echo new > made")
    assert said == ("readable.ssh:\n\n.tenure:\n", 0)
    assert (ground.user / "made").read_text() == "new\n"
    assert (ground.user / ".netrc").read_text() == "machine password"


async def test_a_working_directory_among_the_secrets_is_there_all_the_same(ground):
    box = ground.box(root=ground.user / ".ssh")
    assert (await ground.run(box, "cat id_ed25519; cat ../.tenure/token")).text.startswith(
        "the user's key"
    )


async def test_further_paths_are_shown_as_the_configuration_says(ground):
    data, out = ground.base / "data", ground.base / "out"
    data.mkdir()
    out.mkdir()
    (data / "f").write_text("text\n")
    box = ground.box(read=(data,), write=(out,))
    said = await ground.run(box, f"cat {data}/f; echo x > {out}/made; echo x > {data}/f")
    assert said.text.startswith("text\n") and "Read-only" in said.text and said.status != 0
    assert (out / "made").exists()


async def test_a_daemon_in_the_box_ends_when_the_command_is_stopped(ground):
    command = f"env -i setsid setsid sleep {S77123} & sleep 0.1; echo ready; sleep 1000"
    process = await ground.start(ground.box(), command)
    await read_until(process, "ready")
    assert any(_sleeps(S77123))
    await process.stop()
    assert not any(_sleeps(S77123))


def _sleeps(seconds):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            yield f"sleep\0{seconds}" in Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            continue


async def test_a_box_whose_outer_process_is_killed_ends_all_the_same(ground):
    process = await ground.start(ground.box(), f"env -i sleep {S77124} & echo ready; wait")
    await read_until(process, "ready")
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    await process.stop()
    assert not any(_sleeps(S77124))


async def test_a_folder_that_cannot_be_made_is_told_and_tried_again(ground):
    from tenure.errors import ProcessError

    (ground.home / "boxes").write_text("in the way")
    box = ground.box()
    with pytest.raises(ProcessError, match="cannot be made"):
        await ground.start(box, "true")
    (ground.home / "boxes").unlink()
    assert (await ground.run(box, "echo better")).text == "better\n"


async def test_commands_at_one_time_share_the_folders(ground):
    box = ground.box()
    said = await asyncio.gather(
        *(ground.run(box, f"echo {n} > /tmp/{n}; echo {n}") for n in range(5))
    )
    assert [one.text for one in said] == [f"{n}\n" for n in range(5)]
    assert (await ground.run(box, "ls /tmp | wc -w")).text.strip() >= "5"


def test_what_holds_the_system_is_no_working_directory(tmp_path):
    for root in ("/", "/usr", "/etc", "/tmp"):
        assert why_no_box(Path(root), tmp_path)
    assert why_no_box(tmp_path, tmp_path) and why_no_box(tmp_path / "boxes", tmp_path)
    assert why_no_box(tmp_path, tmp_path / "home") == ""


def test_a_gateway_home_inside_what_is_shown_is_covered(tmp_path):
    work = tmp_path / "work"
    home = work / "home"
    home.mkdir(parents=True)
    layout = Layout(work, Path("/"), home, tmp_path / "boxes")
    argv = box_arguments(layout, "s1", Order(("true",)))
    assert argv.index(str(home)) > argv.index(str(work))
    assert argv[argv.index(str(home)) - 1] == "--tmpfs"


async def test_folders_of_dead_gateways_are_removed_and_ours_at_the_end(ground):
    boxes = ground.home / "boxes"
    (boxes / "dead/s1/tmp").mkdir(parents=True)
    mine = own_folders(ground.session, boxes, "mine")
    (mine / "s2").mkdir(parents=True)
    while (boxes / "dead").exists():
        await asyncio.sleep(0.001)
    assert (mine / "s2").exists()
    await ground.session.close()
    assert not boxes.exists()


def test_a_tree_with_closed_folders_is_removed(tmp_path):
    tree = tmp_path / "tree"
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/b/f").write_text("x")
    (tree / "a").chmod(0)
    remove_tree(tree)
    assert not tree.exists()


async def test_file_tools_do_not_lead_to_what_is_hidden_either(ground):
    """In a home as working directory: by its name, through a link, or by a search."""
    (ground.user / "notes").write_text("the user's notes")
    (ground.user / "link").symlink_to(".ssh/id_ed25519")
    (ground.user / "keys").symlink_to(".ssh")
    box = ground.box(root=ground.user)

    async def call(tool, **arguments):
        ctx = ToolContext(
            session_id="s1", turn_id="t1", call_id="c1", cwd=ground.user, scope=ground.turn,
            session=ground.session, spawner=ground.spawner, clock=ground.root.clock,
            spill_dir=ground.base / "spill", output=lambda _: None, state={}, sandbox=box,
        )  # fmt: skip
        return await tool.call(json.dumps(arguments), ctx)

    assert (await call(Read(999), path="notes")).text == "the user's notes"
    for path in (".ssh/id_ed25519", "link", "keys/id_ed25519", ".tenure/token"):
        for tool, more in ((Read(999), {}), (Edit(), {"old": "the", "new": "a"})):
            with pytest.raises(ToolError, match="out of sight"):
                await call(tool, path=path, **more)
        with pytest.raises(ToolError, match="out of sight"):
            await call(Write(), path=path, content="x")
    for path in (".ssh", "keys", ".tenure"):
        for tool, more in ((List(), {}), (Glob(), {"pattern": "*"}), (Search(9), {"pattern": "x"})):
            with pytest.raises(ToolError, match="out of sight"):
                await call(tool, path=path, **more)
    listed = (await call(List())).text
    assert listed == "1 file, 2 links:\nkeys@\nlink@\nnotes", "nor are names told"
    assert (await call(Glob(), pattern="**")).text == "link\nnotes"
    assert (await call(Search(9_999), pattern="the .*'s")).text == "./notes:1:the user's notes\n"
    assert (ground.user / ".ssh/id_ed25519").read_text() == "the user's key"
