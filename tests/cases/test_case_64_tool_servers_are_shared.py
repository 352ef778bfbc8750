"""Case 64: shared tool servers are leased by key and bounded; the last lease and idle time end them."""

from __future__ import annotations

import asyncio

from support.toolservers import alive, fake, lines, open_rig
from tenure.testing.clock import ManualClock, settle
from tenure.testing.waiting import until

SERVERS = ("a", "b", "c")


async def test_a_hundred_sessions_have_three_servers(tmp_path):
    clock = ManualClock()
    async with open_rig(tmp_path, clock) as rig:
        rig.declare(**{name: fake(tmp_path / name, shared=True) for name in SERVERS})
        await rig.listed("first")
        for round_ in range(3):
            for number in range(100):
                rig.session(f"{number}", tmp_path / f"d{number % 50}")
            await asyncio.gather(*(
                rig.call(f"mcp__{name}__add", session=f"{number}", text=f"{number}")
                for number in range(100) for name in SERVERS
            ))  # fmt: skip
            assert [len(alive(tmp_path / name)) for name in SERVERS] == [1, 1, 1]
            assert len(lines(tmp_path / "a", "effects")) == 100 * (round_ + 1)
            for number in range(100):
                await rig.close(f"{number}")
        assert [len(lines(tmp_path / name, "starts")) for name in SERVERS] == [1, 1, 1]
        await rig.close("first")
        await settle()
        clock.advance(60)
        await until(lambda: not any(alive(tmp_path / name) for name in SERVERS))
        await until(lambda: not rig.held("tool servers"))


async def test_one_that_nobody_uses_is_stopped_though_it_is_borrowed(tmp_path):
    clock = ManualClock()
    async with open_rig(tmp_path, clock) as rig:
        rig.declare(a=fake(tmp_path / "a", shared=True, idle_s=30))
        await rig.listed()
        await rig.call("mcp__a__echo", text="x")
        clock.advance(31)
        await until(lambda: not alive(tmp_path / "a"))
        assert (await rig.call("mcp__a__echo", text="y")).text == "y"


async def test_a_shared_one_gets_nothing_of_a_session(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.declare(a=fake(tmp_path / "a", shared=True))
        await rig.listed()
        await rig.call("mcp__a__echo", text="x")
        told = lines(tmp_path / "a", "clients")[0]
        assert "roots" not in told and "elicitation" not in told and "sampling" not in told
        where = (await rig.call("mcp__a__env", text="PWD")).text
        assert where != str(tmp_path / "work")
        assert "not supported" in (await rig.call("mcp__a__roots")).text


async def test_other_credentials_are_another_server(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.declare(a=fake(tmp_path / "a", shared=True, env={"KEY": "one"}))
        await rig.listed("x")
        assert (await rig.call("mcp__a__env", session="x", text="KEY")).text == "one"
        rig.declare(a=fake(tmp_path / "a", shared=True, env={"KEY": "two"}))
        await rig.listed("y")
        assert (await rig.call("mcp__a__env", session="y", text="KEY")).text == "two"
        assert (await rig.call("mcp__a__env", session="x", text="KEY")).text == "one"
