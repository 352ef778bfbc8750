"""Case 75: a container that is gone is made again, once; a failure is not kept."""

from __future__ import annotations

import asyncio

import pytest

from support.boxes import Ground
from tenure.errors import SandboxUnavailable
from tenure.testing.engine import write_engine


@pytest.fixture
async def ground(tmp_path):
    ground = Ground(tmp_path)
    yield ground
    await ground.session.close()
    await ground.root.close()


async def test_a_container_that_was_removed_behind_our_back_is_made_again_once(ground, tmp_path):
    double = write_engine(tmp_path / "engine")
    box = ground.docker(double)
    await ground.run(box, "true")
    double.drop(next(iter(double.containers())))
    said = await asyncio.gather(*(ground.run(box, "echo again") for _ in range(4)))
    assert {one.text for one in said} == {"again\n"}
    assert [line[0] for line in double.commands()].count("run") == 2


async def test_an_engine_that_was_down_is_asked_again(ground, tmp_path):
    double = write_engine(tmp_path / "engine")
    box = ground.docker(double)
    double.rule("down")
    for _ in range(2):
        with pytest.raises(SandboxUnavailable):
            await ground.run(box, "true")
    double.lift("down")
    assert (await ground.run(box, "echo up")).text == "up\n"
