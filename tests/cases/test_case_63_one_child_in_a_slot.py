"""Case 63: a tool server that is replaced is gone before the next one starts."""

from __future__ import annotations

import os

import pytest

from support.toolservers import alive, fake, lines, open_rig
from tenure.errors import ToolError
from tenure.testing.clock import ManualClock
from tenure.testing.waiting import until
from tenure.toolservers.wire import append_log

MANNERS = pytest.mark.parametrize(("legs", "times"), [((), 20), (("--deaf",), 2)])
"""A deaf one ignores every signal but the last, which takes its time."""


class Watch:
    """Looks at each start how many of the slot's children run."""

    def __init__(self, rig, folder):
        self.most = 0
        spawn = rig.spawner.spawn

        async def counting(*args, **more):
            self.most = max(self.most, len(alive(folder)) + 1)
            return await spawn(*args, **more)

        rig.spawner.spawn = counting


async def test_a_server_that_never_answers_the_handshake(tmp_path):
    clock = ManualClock()
    async with open_rig(tmp_path, clock) as rig:
        append_log(tmp_path / "logs" / "x", b"")
        watch = Watch(rig, tmp_path / "f")
        rig.declare(fake=fake(tmp_path / "f", "--mute"))
        held = rig.session()
        slot = held._places["fake"].own
        fds, asking = 0, None
        for start in range(1, 21):
            await until(lambda n=start: len(lines(tmp_path / "f", "clients")) == n)
            assert len(alive(tmp_path / "f")) == 1
            clock.advance(30)
            await until(lambda: slot.status == "degraded" and slot._run is None)
            await until(lambda: clock.pending or not slot._healing)  # its pause has begun
            if asking is not None:
                assert "handshake" in str(await asking)
                asking = None
            assert alive(tmp_path / "f") == []
            fds = fds or len(os.listdir("/proc/self/fd"))
            if slot._healing:
                clock.advance(300)
            else:  # not by itself any more: a call tries it
                asking = rig.scope().spawn(refused(slot), name="ask").value
        assert watch.most == 1
        await until(lambda: len(os.listdir("/proc/self/fd")) <= fds, "no descriptor is left")
        if asking is not None:
            asking.cancel()


async def refused(slot):
    """What a call is told."""
    try:
        await slot.refresh()
    except ToolError as exc:
        return exc.message


@MANNERS
async def test_one_that_dies_again_and_again(tmp_path, legs, times):
    clock = ManualClock()
    async with open_rig(tmp_path, clock) as rig:
        watch = Watch(rig, tmp_path / "f")
        rig.declare(fake=fake(tmp_path / "f", *legs))
        held = await rig.listed()
        slot = held._places["fake"].own
        for _ in range(times):
            with pytest.raises(ToolError):
                await rig.call("mcp__fake__close_stdout")  # it lives on, deaf to every signal
            await rig.call("mcp__fake__echo", text="x")  # at once: the old one may still run
            assert len(alive(tmp_path / "f")) == 1
            clock.advance(61)  # no more than one in a minute
        assert watch.most == 1 and slot.starts == 1 + times


@MANNERS
async def test_one_that_is_declared_anew(tmp_path, legs, times):
    async with open_rig(tmp_path) as rig:
        watch = Watch(rig, tmp_path / "f")
        for number in range(times):
            rig.declare(fake=fake(tmp_path / "f", *legs, env={"N": str(number)}))
            await rig.listed()
            assert (await rig.call("mcp__fake__env", text="N")).text == str(number)
            assert len(alive(tmp_path / "f")) == 1
        assert watch.most == 1
        await rig.close()
        assert alive(tmp_path / "f") == []


async def test_one_that_cannot_be_ended_keeps_its_place(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.declare(fake=fake(tmp_path / "f"))
        held = await rig.listed()
        slot = held._places["fake"].own

        async def survives(_process):
            from tenure.errors import ProcessError

            raise ProcessError("Process 1 survived SIGKILL.")

        slot._run.scope.own("tool server", None, survives)
        with pytest.raises(ToolError):
            await rig.call("mcp__fake__die")
        await until(lambda: slot._run is None)
        with pytest.raises(ToolError, match="what ran of it before could not be ended"):
            await rig.call("mcp__fake__echo", text="x")
        assert slot.starts == 1


async def test_one_that_is_taken_out_and_put_back(tmp_path):
    async with open_rig(tmp_path) as rig:
        watch = Watch(rig, tmp_path / "f")
        deaf = fake(tmp_path / "f", "--deaf")
        rig.declare(fake=deaf)
        await rig.listed()
        rig.declare()
        rig.session()
        rig.declare(fake=deaf)
        await rig.listed()
        assert (await rig.call("mcp__fake__echo", text="x")).text == "x"
        assert len(alive(tmp_path / "f")) == 1 and watch.most == 1
