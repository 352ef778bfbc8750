"""Servers that behave badly: contained, told in one sentence, and nobody else waits."""

from __future__ import annotations

import msgspec
import pytest

from support.toolservers import alive, fake, lines, open_rig, running
from tenure.errors import ToolError
from tenure.testing.clock import ManualClock, settle
from tenure.testing.waiting import until
from tenure.toolservers.declared import Declared


async def failing(rig, tool="mcp__bad__echo", **args):
    with pytest.raises(ToolError) as caught:
        await rig.call(tool, **args)
    return caught.value.message


def known(rig, tmp_path, *legs, **more):
    """A server whose tools are known already, with these legs from now on."""
    declared = {"bad": fake(tmp_path / "f", *legs, **more), "good": fake(tmp_path / "g")}
    return declare_known(rig, declared)


def declare_known(rig, declared):
    """Declare servers that offer what the good one does, as if that were known of them."""
    good = rig.session()._places["good"].offers
    for entry in declared.values():
        rig.home.catalog.put(msgspec.convert(entry, Declared).digest, good)
    rig.declare(**declared)
    return rig.session()


async def prepared(rig, tmp_path):
    rig.declare(good=fake(tmp_path / "g"))
    await rig.listed()


async def test_it_ignores_every_signal(tmp_path):
    async with open_rig(tmp_path) as rig:
        await prepared(rig, tmp_path)
        known(rig, tmp_path, "--deaf")
        pid = int((await rig.call("mcp__bad__pid")).text)
        report = await rig.close()
        assert not running(pid) and report.failures == ()


async def test_it_exits_at_once(tmp_path):
    async with open_rig(tmp_path) as rig:
        await prepared(rig, tmp_path)
        known(rig, tmp_path, "--die")
        said = await failing(rig)
        assert said == "The tool server bad does not start: it exited with status 3."
        row = rig.row("bad")
        assert row["status"] == "degraded" and "status 3" in row["reason"]
        assert (await rig.call("mcp__good__echo", text="x")).text == "x"
        log = tmp_path / "logs" / "mcp-bad.log"
        assert log.read_text() == "no reason to live\n" and log.stat().st_mode & 0o777 == 0o600


async def test_there_is_no_such_program(tmp_path):
    async with open_rig(tmp_path) as rig:
        await prepared(rig, tmp_path)
        declare_known(rig, {"bad": {"command": "no-such-program-here"}})
        said = await failing(rig)
        assert "does not start: no-such-program-here cannot start: there is no such program" in said


async def test_it_speaks_garbage(tmp_path):
    async with open_rig(tmp_path) as rig:
        await prepared(rig, tmp_path)
        known(rig, tmp_path, "--garbage")
        said = await failing(rig)
        assert "it does not speak the protocol; it says 'Welcome to server, line 0'" in said
        await until(lambda: not alive(tmp_path / "f"))


async def test_one_line_of_garbage_is_forgiven(tmp_path):
    async with open_rig(tmp_path) as rig:
        await prepared(rig, tmp_path)
        known(rig, tmp_path)
        assert (await rig.call("mcp__bad__garbage")).text == "after garbage"


async def test_a_message_that_is_too_long(tmp_path):
    async with open_rig(tmp_path) as rig:
        await prepared(rig, tmp_path)
        known(rig, tmp_path)
        said = await failing(rig, "mcp__bad__huge")
        assert "it sent a message of more than 16 MiB" in said and "outcome is unknown" in said
        await until(lambda: not alive(tmp_path / "f"))


async def test_it_closes_its_output(tmp_path):
    async with open_rig(tmp_path) as rig:
        await prepared(rig, tmp_path)
        known(rig, tmp_path)
        said = await failing(rig, "mcp__bad__close_stdout")
        assert "it closed its output" in said  # and not that it did not answer in time
        await until(lambda: not alive(tmp_path / "f"))


async def test_it_floods_stderr(tmp_path):
    async with open_rig(tmp_path) as rig:
        await prepared(rig, tmp_path)
        known(rig, tmp_path)
        assert (await rig.call("mcp__bad__flood")).text == "flooded"
        files = list((tmp_path / "logs").iterdir())
        assert sum(path.stat().st_size for path in files) <= 2 * (1 << 20) + 65_536
        assert "is not kept" in "".join(path.read_text()[-100:] for path in files)


async def test_it_leaves_children_behind(tmp_path):
    async with open_rig(tmp_path) as rig:
        await prepared(rig, tmp_path)
        bad = fake(tmp_path / "f")
        bad["args"] = ["-c", 'sleep 1000 & exec "$@"', "sh", bad["command"], *bad["args"]]
        bad["command"] = "sh"
        declare_known(rig, {"bad": bad})
        await rig.call("mcp__bad__pid")
        (child,) = [int(pid) for pid in children_of(alive(tmp_path / "f")[0])]
        await rig.close()
        assert not running(child)


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return file.read().split()


async def test_a_refusal_is_no_end_of_the_server(tmp_path):
    """Whatever its code: the server runs on, and what is kept in it stays."""
    async with open_rig(tmp_path) as rig:
        await prepared(rig, tmp_path)
        known(rig, tmp_path)
        pid = (await rig.call("mcp__bad__pid")).text
        for _ in range(4):
            assert "refused: not today" in await failing(rig, "mcp__bad__refuse")
        assert (await rig.call("mcp__bad__pid")).text == pid


async def test_while_one_hangs_others_answer(tmp_path):
    async with open_rig(tmp_path, ManualClock()) as rig:
        await prepared(rig, tmp_path)
        known(rig, tmp_path, "--mute")
        waiting = rig.scope().spawn(failing(rig), name="call").value
        await until(lambda: lines(tmp_path / "f", "clients"))
        for _ in range(5):
            assert (await rig.call("mcp__good__echo", text="x")).text == "x"
        assert not waiting.done()
        rig.clock.advance(30)
        assert "did not answer the handshake within 30 s" in await waiting
        assert alive(tmp_path / "f") == []


async def test_three_ends_in_a_minute_are_enough(tmp_path):
    """Then calls fail at once, and it is tried again in the background with growing pauses."""
    clock = ManualClock()
    async with open_rig(tmp_path, clock) as rig:
        await prepared(rig, tmp_path)
        held = known(rig, tmp_path)
        for count in (1, 2, 3):
            assert "outcome is unknown" in await failing(rig, "mcp__bad__die")
            assert len(lines(tmp_path / "f", "starts")) == count
            await until(lambda: held._places["bad"].own._run is None)
        await until(lambda: rig.row("bad")["status"] == "degraded")
        assert "tried again by itself" in await failing(rig)
        assert len(lines(tmp_path / "f", "starts")) == 3
        await settle()
        clock.advance(5)
        await until(lambda: rig.row("bad")["status"] == "ready")
        assert (await rig.call("mcp__bad__echo", text="healed")).text == "healed"


async def test_healing_pauses_grow_and_end(tmp_path):
    clock = ManualClock()
    async with open_rig(tmp_path, clock) as rig:
        await prepared(rig, tmp_path)
        held = known(rig, tmp_path, "--die")
        await failing(rig)
        slot = held._places["bad"].own
        for tries, pause in enumerate((5, 10, 20, 40, 80, 160), 2):
            await settle()
            clock.advance(pause - 0.5)
            await settle()
            assert slot.starts == tries - 1
            clock.advance(0.5)
            await until(lambda n=tries: slot.starts == n and slot.status == "degraded")
            await settle()
        await until(lambda: not slot._healing)
        clock.advance(10_000)
        assert slot.starts == 7
        assert "does not start" in await failing(rig)  # a call tries again
        assert slot.starts == 8
