"""The servers that everybody uses, from npm, as a session uses them."""

from __future__ import annotations

import json
import os

import pytest

from support.sshd import free_port
from support.toolservers import open_rig, running
from tenure.errors import ToolError
from tenure.testing.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # the first may have to install


async def test_everything(tmp_path, npm_servers):
    async with open_rig(tmp_path) as rig:
        rig.declare(
            every={"command": str(npm_servers / "mcp-server-everything"), "args": ["stdio"]}
        )
        held = await rig.listed()
        names = {tool.name for tool in held.tools()}
        assert {"mcp__every__echo", "mcp__every__get-sum", "mcp_read"} <= names
        assert "hello" in (await rig.call("mcp__every__echo", message="hello")).text
        assert "5" in (await rig.call("mcp__every__get-sum", a=2, b=3)).text
        result = await rig.call("mcp__every__trigger-long-running-operation", duration=1, steps=2)
        assert "completed" in result.text.lower() and any("2/2" in text for text in rig.output)
        listed = await rig.call("mcp_read", action="resources", server="every")
        uri = listed.text.splitlines()[0].split(": ")[0]
        assert (await rig.call("mcp_read", action="resource", server="every", uri=uri)).text
        assert (
            "simple-prompt" in (await rig.call("mcp_read", action="prompts", server="every")).text
        )
        with pytest.raises(ToolError):
            await rig.call("mcp_read", action="prompt", server="every", name="no-such-prompt")
        image = await rig.call("mcp__every__get-tiny-image")
        assert "[image image/png" in image.text
        environ = json.loads((await rig.call("mcp__every__get-env")).text)
        assert "SECRET_OF_OURS" not in environ and "HOME" not in set(environ) - set(os.environ)
        pid = held.rows()[0]["pid"]
        report = await rig.close()
        assert not running(pid) and report.failures == ()


async def test_filesystem_works_in_the_session_s_folder(tmp_path, npm_servers):
    async with open_rig(tmp_path) as rig:
        work = str(tmp_path / "work")
        rig.declare(fs={"command": str(npm_servers / "mcp-server-filesystem"), "args": [work]})
        await rig.listed()
        path = f"{work}/a.txt"
        await rig.call("mcp__fs__write_file", path=path, content="written by a server")
        assert (tmp_path / "work" / "a.txt").read_text() == "written by a server"
        assert "written" in (await rig.call("mcp__fs__read_text_file", path=path)).text
        outside = await rig.call("mcp__fs__read_text_file", path="/etc/hostname")
        assert outside.is_error and "outside" in outside.text.lower()


async def test_memory_shared_by_two_sessions(tmp_path, npm_servers):
    async with open_rig(tmp_path) as rig:
        rig.declare(memory={
            "command": str(npm_servers / "mcp-server-memory"), "shared": True,
            "env": {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")},
        })  # fmt: skip
        await rig.listed("one")
        await rig.listed("two")
        entity = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
        await rig.call("mcp__memory__create_entities", session="one", entities=[entity])
        read = await rig.call("mcp__memory__read_graph", session="two")
        assert "writes programs" in read.text
        pid = rig.row("memory", "one")["pid"]
        assert pid == rig.row("memory", "two")["pid"]
        await rig.close("one")
        assert running(pid)
    await until(lambda: not running(pid))


async def test_everything_by_http(tmp_path, npm_servers):
    """The same server elsewhere; it is a child of the test here."""
    import asyncio

    port = free_port()
    program = npm_servers / "mcp-server-everything"
    process = await asyncio.create_subprocess_exec(
        str(program), "streamableHttp", env={**os.environ, "PORT": str(port)},
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        while b"listening" not in (await process.stderr.readline()).lower():
            assert process.returncode is None
        async with open_rig(tmp_path) as rig:
            rig.declare(every={"url": f"http://127.0.0.1:{port}/mcp"})
            await rig.listed()
            assert "hello" in (await rig.call("mcp__every__echo", message="hello")).text
            result = await rig.call(
                "mcp__every__trigger-long-running-operation", duration=1, steps=2
            )
            assert any("2/2" in text for text in rig.output), result.text
    finally:
        process.kill()
        await process.communicate()
