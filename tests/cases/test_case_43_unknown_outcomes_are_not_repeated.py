"""Case 43: a call that may have reached a tool server is never made again."""

from __future__ import annotations

import os
import signal

import pytest

from support.toolservers import alive, fake, lines, open_rig
from tenure.errors import ToolError
from tenure.sandbox.local import Local
from tenure.testing.waiting import until


async def test_a_server_that_dies_after_the_effect(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.declare(fake=fake(tmp_path / "f"))
        await rig.listed()
        with pytest.raises(ToolError, match=r"ended during the call .*outcome is unknown.*not rep"):
            await rig.call("mcp__fake__die_after", text="once")
        assert lines(tmp_path / "f", "effects") == ["once"]
        assert lines(tmp_path / "f", "calls") == ["die_after"]
        assert (await rig.call("mcp__fake__add", text="next")).text == "added"
        assert lines(tmp_path / "f", "effects") == ["once", "next"]


async def test_a_server_that_has_died_before_is_started_again(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.declare(fake=fake(tmp_path / "f"))
        await rig.listed()
        (pid,) = alive(tmp_path / "f")
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not alive(tmp_path / "f"))
        assert (await rig.call("mcp__fake__add", text="x")).text == "added"
        assert lines(tmp_path / "f", "effects") == ["x"]


class Torn(Local):
    """Where the input of the first server breaks at the first call, and nobody has noticed yet."""

    torn = 0

    async def start(self, scope, order):
        running = await super().start(scope, order)
        write = running.write

        async def tearing(data):
            if b"tools/call" in data and not Torn.torn:
                Torn.torn += 1
                running._stdin.close()
            await write(data)

        running.write = tearing
        return running


@pytest.mark.parametrize(("size", "tries"), [(10, 2), (100_000, 1)])
async def test_one_that_dies_under_the_writing(tmp_path, size, tries):
    """What was surely not written is made again, once; of a longer call nobody can tell."""
    Torn.torn = 0
    async with open_rig(tmp_path) as rig:
        rig.declare(fake=fake(tmp_path / "f"))
        held = await rig.listed()
        await rig.close()
        held = rig.session()
        held._sandbox = Torn(rig.spawner, tmp_path / "work", "s")
        call = rig.call("mcp__fake__add", text="x" * size)
        if tries == 2:
            assert (await call).text == "added"
        else:
            with pytest.raises(ToolError, match="outcome is unknown"):
                await call
        assert len(lines(tmp_path / "f", "starts")) == 1 + tries
        assert len(lines(tmp_path / "f", "effects")) == tries - 1
