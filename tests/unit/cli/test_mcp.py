"""`tenure mcp …`, as a person calls it."""

from __future__ import annotations

import asyncio
import json
import stat
import sys

from support.commands import TENURE
from support.remote import Remote
from support.toolservers import FAKE


async def run(place, *arguments):
    process = await asyncio.create_subprocess_exec(
        *TENURE, *arguments, env=place.env, cwd=place.work,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    return process.returncode, said.decode()


async def test_add_test_list_remove(place):
    folder = place.work / "f"
    folder.mkdir()
    code, said = await run(place, "mcp", "list")
    assert code == 0 and "There are none" in said
    code, said = await run(
        place, "mcp", "add", "--env", "KEY=hidden-value", "--shared", "fake",
        sys.executable, "-S", FAKE, f"--dir={folder}",
    )  # fmt: skip
    assert code == 0 and "is added" in said, said
    file = place.home / "mcp.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    entry = json.loads(file.read_text())["mcpServers"]["fake"]
    assert entry["args"][-1] == f"--dir={folder}" and entry["env"] == {"KEY": "hidden-value"}
    code, said = await run(place, "mcp", "test", "fake")
    assert code == 0 and "mcp__fake__echo  Does echo." in said, said
    assert "also resources and prompts" in said
    tools = said.count("mcp__fake__")
    code, said = await run(place, "mcp", "list")
    assert f" {tools} tools, shared" in said and "hidden-value" not in said
    code, said = await run(place, "doctor")
    assert "tool servers fake" in said
    assert (await run(place, "mcp", "remove", "fake"))[0] == 0
    assert (await run(place, "mcp", "remove", "fake"))[0] == 1


async def test_a_folder_s_file_is_trusted_as_it_is(place):
    file = place.work / ".mcp.json"
    file.write_text('{"mcpServers": {"theirs": {"command": "touch", "args": ["ran"]}}}')
    code, said = await run(place, "mcp", "list")
    assert "not trusted" in said
    code, said = await run(place, "mcp", "test", "theirs")
    assert code != 0 and "trust" in said and not (place.work / "ran").exists()
    code, said = await run(place, "mcp", "trust")
    assert code == 0 and "theirs: touch ran" in said
    assert "not trusted" not in (await run(place, "mcp", "list"))[1]
    file.write_text('{"mcpServers": {"theirs": {"command": "touch", "args": ["other"]}}}')
    assert "not trusted" in (await run(place, "mcp", "list"))[1]
    await run(place, "mcp", "trust")
    assert (await run(place, "mcp", "distrust"))[0] == 0
    assert (await run(place, "mcp", "distrust"))[0] == 1


async def test_what_cannot_be_is_one_sentence(place):
    for arguments, told in (
        (("add", "a b", "x"), "a name has at most"),
        (("add", "a", "http://x", "y"), "no arguments"),
        (("add", "--env", "A", "a", "x"), "not NAME=VALUE"),
        (("test", "nobody"), "There is no tool server"),
        (("trust", "nowhere.json"), "There is no file"),
    ):
        code, said = await run(place, "mcp", *arguments)
        assert code and told in said and "Traceback" not in said, said
    (place.home / "mcp.json").write_text("{")
    code, said = await run(place, "doctor")
    assert "mcp.json is not JSON" in said


async def test_a_login_with_a_browser(place):
    async with Remote() as remote:
        remote.asks = True
        await run(place, "mcp", "add", "far", remote.url)
        code, said = await run(place, "mcp", "test", "far")
        assert code == 2 and "wants a login" in said, said
        process = await asyncio.create_subprocess_exec(
            *TENURE, "mcp", "login", "far", env=place.env, cwd=place.work,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        await process.stdout.readline()
        url = (await process.stdout.readline()).decode().strip()
        back = await fetch(url)  # the server sends the browser back
        assert b"You can close this page" in await fetch_raw(back)
        _, said = await process.communicate()
        assert process.returncode == 0 and b"knows you now" in said, said
        file = place.home / "mcp-logins.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600 and "access-1" in file.read_text()
        code, said = await run(place, "mcp", "test", "far")
        assert code == 0 and "far answers: 2 tools" in said
        await run(place, "mcp", "remove", "far")
        assert "access-1" not in file.read_text()


async def fetch(url):
    """Where an address sends a browser."""
    head = await fetch_raw(url)
    lines = head.decode().split("\r\n")
    return next(line.split(": ", 1)[1] for line in lines if line.startswith("location: "))


async def fetch_raw(url):
    """What an address answers."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"GET {parts.path}?{parts.query} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    found = await reader.read()
    writer.close()
    return found
