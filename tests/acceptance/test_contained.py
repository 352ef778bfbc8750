"""What goes wrong without end: it is contained, told in a sentence, and others answer meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from support.boxes import needs_bwrap
from support.cgroup import NO_CGROUP, real_place
from support.commands import Place
from support.everything import Everything, Session, call, declare, everything, until
from support.needs import need
from support.served import serving
from support.toolservers import lines
from tenure.processes.cgroups import REAL
from tenure.testing.model_server import Answer

pytestmark = [pytest.mark.slow, needs_bwrap]
PROCESSES = 40
MEMORY_MIB = 700
LIMITS = f"[limits]\nsession_processes = {PROCESSES}\nsession_memory_mib = {MEMORY_MIB}\n"
BOMB = """
import os, time
open("began", "w").close()
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    if len(os.listdir("/proc")) < 500:
        os.fork()
    time.sleep(0.02)
"""
"""Doubles every 20 ms until there is a crowd; by itself it ends after a minute."""
EATER = (
    "kept = []\nopen('began', 'w').close()\nwhile len(kept) < 8000: kept.append(b'x' * (1 << 20))"
)
HOG = """<title>Hog</title><script>
const kept = [];
function more() {
  const piece = new Uint8Array(64 << 20); piece.fill(1); kept.push(piece);
  if (kept.length < 200) setTimeout(more, 1);
}
fetch("/began"); more();
</script>"""

DONE = {"text": "done"}
SNAPSHOT = call("browser", action="snapshot")


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


async def known(world: Everything, session: Session, tool: str) -> bool:
    found = await world.client.call("session.resume", session_id=session.id)
    return tool in str(found["info"]["tools"])


async def contained(
    world: Everything, session: Session, began: object = None, *, lasts: bool = False
) -> str:
    """Let it go wrong; what the model is told of it. Another session answers meanwhile.

    Args:
        began: whether it has begun, if that can be seen.
        lasts: it must still go on when the other one has its answer.
    """
    await session.submit("go wrong")
    await world.next("tool.start", session)
    if began is not None:
        await until(began, "it has begun")  # type: ignore[arg-type]
    await world.another_answers()
    if lasts:
        assert (await world.client.call("session.resume", session_id=session.id))["running"]
    told = await world.result(session)
    await world.next("message.complete", session)
    await world.agrees()
    return told


@pytest.mark.parametrize("sandbox", ["bubblewrap", "local"])
async def test_a_fork_bomb(place, sandbox):
    (place.work / "bomb.py").write_text(BOMB)
    async with everything(place, LIMITS) as world:
        bomb = call("shell", command="python3 bomb.py")
        session = await world.session(bomb, DONE, sandbox=sandbox)
        began = (place.work / "began").exists
        told = await contained(world, session, began)
        assert f"the limit is {PROCESSES} (limits.session_processes)" in told, told
        assert await session.processes() == 0
        await session.close()


async def test_a_command_that_eats_memory(place):
    (place.work / "eat.py").write_text(EATER)
    async with everything(place, LIMITS) as world:
        session = await world.session(call("shell", command="python3 eat.py"), DONE)
        told = await contained(world, session, (place.work / "began").exists)
        assert f"the limit is {MEMORY_MIB} MiB (limits.session_memory_mib)" in told, told
        await session.close()


async def test_a_command_that_prints_ten_gigabytes(place):
    async with everything(place) as world:
        command = "touch began; head -c 10G /dev/zero; echo the end"
        session = await world.session(call("shell", command=command), DONE)
        told = await contained(world, session, (place.work / "began").exists, lasts=True)
        assert "10737" in told and "the end" in told, told[:2000]
        kept = sum(path.stat().st_size for path in place.home.rglob("*") if path.is_file())
        assert kept < 64 << 20
        await session.close()


@asynccontextmanager
async def endless() -> AsyncIterator[tuple[int, asyncio.Event]]:
    """A server whose answer does not end; its port, and whether a client has hung up."""
    gone = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
            while True:
                writer.write(b"and so on " * 6_000)
                await writer.drain()
        gone.set()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], gone
    finally:
        server.close()
        await server.wait_closed()


async def test_an_endless_download(place):
    async with endless() as (port, gone), everything(place, web=f'"127.0.0.1:{port}"') as world:
        url = f"http://127.0.0.1:{port}/"
        session = await world.session(call("web_fetch", url=url), DONE)
        told = await contained(world, session)
        assert "cut after 5242880 bytes" in told and "and so on" in told, told[:2000]
        await asyncio.wait_for(gone.wait(), 10)
        await session.close()


async def test_a_page_that_eats_memory(place):
    need("chromium")
    async with everything(place, "[browser]\npage_mib = 600\n") as world:
        site = world.site
        site.by_path["/hog"] = Answer(HOG.encode(), content_type="text/html")
        site.by_path["/began"] = Answer(b"ok", content_type="text/plain")
        here, hog = (f"http://127.0.0.1:{site.port}{path}" for path in ("/", "/hog"))
        again = [step for _ in range(60) for step in (SNAPSHOT, DONE)]
        session = await world.session(call("browser", action="navigate", url=hog), DONE, *again)
        other = await world.session(call("browser", action="navigate", url=here), DONE)
        await contained(world, session)
        assert "/began" in [request.path for request in site.requests]
        await other.submit("look")
        assert "Hello" in await world.result(other)
        told = ""
        while "crashed" not in told:
            await session.submit("and now?")
            told = await world.result(session)
            await world.next("message.complete", session)
        assert "perhaps for want of memory" in told, told
        await world.agrees()
        await session.close()


async def test_tool_servers_that_misbehave(place):
    folder = declare(place, "bad", "--deaf")
    declare(place, "garbled", "--garbage")
    declare(place, "good")
    async with everything(place) as world:
        steps = [
            call("mcp__bad__echo", text="first"),
            call("mcp__bad__flood"),
            call("mcp__bad__garbage"),
            call("mcp__bad__close_stdout"),
            call("mcp__bad__pid"),
            call("mcp__good__echo", text="good as ever"),
            DONE,
        ]
        session = await world.session(*steps)
        await until(lambda: known(world, session, "mcp__bad__pid"), "its tools are known")
        await until(lambda: known(world, session, "mcp__good__echo"), "the good one's, too")
        await session.submit("go wrong")
        told = [await world.result(session) for _ in range(4)]
        await world.another_answers()
        told += [await world.result(session) for _ in range(2)]
        expected = (
            "first", "flooded", "after garbage", "(it closed its output", "bad", "good as ever",
        )  # fmt: skip
        for said, result in zip(expected, told, strict=True):
            assert said in result, (said, result)
        calls = lines(folder, "calls")
        assert calls.count("close_stdout") == 1, "a call with unknown outcome is not repeated"
        await world.next("message.complete", session)
        await world.agrees()
        info = (await world.client.call("session.resume", session_id=session.id))["info"]
        garbled = next(row for row in info["mcp_servers"] if row["name"] == "garbled")
        assert "it does not speak the protocol" in garbled["reason"], garbled
        await session.close()  # it ignores TERM, INT and the end of its input
        await world.agrees()


SWARM = """
import os, time
open("began", "w").close()
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    crowd = len(os.listdir("/proc")) >= 500
    if not crowd and os.fork() == 0:
        os.setsid()
    time.sleep(0.5 if crowd else 0.02)
"""
"""As the bomb, and each of it begins a session of its own. A crowd looks less often whether it is to
grow again: that 500 look fifty times in a second holds up every other test, and contains nothing."""


async def test_a_swarm_of_sessions_of_their_own(place):
    if not real_place():
        pytest.skip(NO_CGROUP)
    (place.work / "swarm.py").write_text(SWARM)
    async with everything(place, LIMITS) as world:
        swarm = call("shell", command="env -i python3 swarm.py")
        session = await world.session(swarm, DONE, sandbox="local")
        told = await contained(world, session, (place.work / "began").exists)
        assert f"the limit is {PROCESSES} (limits.session_processes)" in told, told
        assert await session.processes() == 0
        assert groups(world) == [session.id]
        await session.close()
        assert groups(world) == []


async def test_a_file_that_does_not_end_and_too_many_open_ones(place):
    """In a box, as the model is told of it."""
    limits = "[limits]\nsession_disk_mib = 4\nsession_open_files = 64\n"
    async with everything(place, limits) as world:
        many = "python3 -c 'kept = [open(\"/dev/null\") for _ in range(99)]'"
        session = await world.session(
            call("shell", command="cat /dev/zero > big; exit $?"), call("shell", command=many), DONE
        )
        await session.submit()
        large, opened = await world.result(session), await world.result(session)
        assert "a file grew to 4 MiB, the limit (limits.session_disk_mib)" in large, large
        assert (place.work / "big").stat().st_size == 4 << 20
        told = "a process may have 64 files open (limits.session_open_files)"
        assert told in opened, opened
        await session.close()


async def test_the_groups_of_a_killed_gateway_go_at_the_next_start(place):
    if not (top := real_place()):
        pytest.skip(NO_CGROUP)
    async with everything(place, "[recovery]\ncontinue_turns = false\n") as world:
        session = await world.session(call("shell", command="touch began; sleep 600"), DONE)
        await session.submit()
        await until((place.work / "began").exists, "it has begun")
        await until(lambda: groups(world) == [session.id], "it has a group")
        left = groups(world)
        os.kill(world.served.pid, signal.SIGKILL)
        await asyncio.to_thread(world.served.process.wait, 10)
        assert groups(world) == left
    with serving(place, "--model", place.script({"text": "Hello."})) as served:
        async with served.client() as client:
            assert (await client.call("census.verify"))["differences"] == []
            assert groups(world) == []
    assert real_place() == top


def groups(world: Everything) -> list[str]:
    """The sessions of a gateway that have a group, also when it has been killed."""
    names = REAL.names(real_place())
    return sorted(name.rpartition(".")[2] for name in names if f".{world.instance}." in name)
