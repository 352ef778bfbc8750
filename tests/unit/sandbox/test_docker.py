"""Containers: a row first, labels, an end; what differs is healed, what is others' is left."""

from __future__ import annotations

import asyncio
import shutil
import subprocess

import pytest

from support.boxes import read_until
from tenure.errors import ProcessError, SandboxUnavailable, StoreError
from tenure.sandbox.docker import HOME_LABEL, LEASE_LABEL, PROFILE_LABEL, compare
from tenure.testing.engine import write_engine

OURS = {HOME_LABEL: "home-1", PROFILE_LABEL: "default"}


@pytest.fixture
def double(tmp_path):
    return write_engine(tmp_path / "engine")


@pytest.fixture
def box(ground, double):
    return ground.docker(double)


async def test_a_container_is_made_as_it_should_be(ground, double, box):
    assert (await ground.run(box, "echo hi")).text == "hi\n"
    (facts,) = double.containers().values()
    (row,) = ground.rows.rows
    assert facts["labels"] == {
        **OURS, LEASE_LABEL: row, "tenure.session": ground.session_id, "tenure.instance": "test",
    }  # fmt: skip
    given = facts["given"]
    assert given["--network"] == ["none"] and given["--cap-drop"] == ["ALL"]
    assert given["--mount"] == [f"type=bind,source={ground.work},target={ground.work}"]
    assert "--name" not in given


async def test_the_network_belongs_to_the_container(ground, double):
    open_box = ground.docker(double, network=True)
    await ground.run(open_box, "true", network=True)
    assert "--network" not in next(iter(double.containers().values()))["given"]
    with pytest.raises(SandboxUnavailable, match=r"sandbox\.network"):
        await ground.run(ground.docker(double), "true", network=True)


async def test_nothing_is_made_before_the_first_use_and_the_end_removes_it(ground, double, box):
    assert double.commands() == [] and ground.session.census() == []
    await asyncio.gather(*(ground.run(box, "true") for _ in range(3)))
    assert len(double.containers()) == 1
    await ground.session.close()
    assert double.containers() == {} and ground.engine.held == {}
    assert list(ground.rows.rows.values()) == ["its session ended"]


async def test_values_of_variables_are_in_no_list_of_processes(ground, double, box):
    assert (await ground.run(box, "echo $SECRET", env={"SECRET": "hush"})).text == "hush\n"
    assert not any("hush" in word for line in double.commands() for word in line if "$" not in word)


async def test_the_row_is_written_first(ground, double, box):
    ground.rows.failure = StoreError("full")
    with pytest.raises(SandboxUnavailable):
        await ground.run(box, "true")
    assert [line[0] for line in double.commands() if line[0] == "run"] == []
    ground.rows.failure = None
    await ground.run(box, "true")


@pytest.mark.parametrize("step", ["run", "run after create"])
async def test_a_start_that_fails_leaves_nothing(ground, double, box, step):
    double.rule("fail", step)
    with pytest.raises(SandboxUnavailable, match="refused run"):
        await ground.run(box, "true")
    assert double.containers() == {} and ground.engine.held == {}
    (reason,) = ground.rows.rows.values()
    assert reason.startswith("it could not be made")
    double.lift("fail")
    assert (await ground.run(box, "echo better")).text == "better\n"


async def test_a_container_that_was_removed_is_made_again_once(ground, double, box):
    await ground.run(box, "true")
    double.drop(next(iter(double.containers())))
    said = await asyncio.gather(*(ground.run(box, "echo again") for _ in range(3)))
    assert {one.text for one in said} == {"again\n"}
    assert len(double.containers()) == 1
    assert sorted(map(bool, ground.rows.rows.values())) == [False, True]


async def test_a_close_while_it_is_made_removes_it(ground, double, box):
    double.rule("hold", "run")
    task = asyncio.ensure_future(ground.run(box, "true"))
    while not any(line[0] == "run" for line in double.commands()):
        await asyncio.sleep(0.01)
    closing = asyncio.ensure_future(ground.session.close())
    await asyncio.sleep(0)
    double.lift("hold")
    await closing
    with pytest.raises(Exception, match=r".*"):
        await task
    assert double.containers() == {} and await ground.rows.live() == []


async def test_an_engine_that_is_not_there(ground, double, box):
    double.rule("down")
    for using in (ground.run(box, "true"), ground.engine.check()):
        with pytest.raises(SandboxUnavailable, match=r"Is the docker daemon running\?$"):
            await using
    box._engine.config = type(box._engine.config)(program="no-such-engine")
    with pytest.raises(SandboxUnavailable, match="There is no no-such-engine here"):
        _ = box._engine.program


async def test_what_nobody_holds_is_removed_and_others_are_left(ground, double, box):
    await ground.run(box, "true")
    mine = next(iter(double.containers()))
    double.put("a" * 64, **OURS, **{LEASE_LABEL: "ctr_dead"})
    double.put("b" * 64, **OURS, **{LEASE_LABEL: "ctr_without_row"})
    double.put("c" * 64, **{**OURS, PROFILE_LABEL: "other"}, **{LEASE_LABEL: "ctr_3"})
    double.put("d" * 64, **{**OURS, HOME_LABEL: "home-2"}, **{LEASE_LABEL: "ctr_4"})
    double.put("e" * 64)
    await ground.rows.begin("ctr_dead", "s9", 1)
    await ground.rows.begin("ctr_never_made", "s9", 1)
    healed = await compare(ground.engine, ground.rows, ground.rows.live)
    assert set(healed.removed) == {"a" * 64, "b" * 64}
    assert set(healed.ended) == {"ctr_dead", "ctr_never_made"}
    assert set(double.containers()) == {mine, "c" * 64, "d" * 64, "e" * 64}
    assert await ground.rows.live() == list(ground.engine.held)
    assert await compare(ground.engine, ground.rows, ground.rows.live) == ((), ())


async def test_a_row_whose_container_is_gone_is_ended(ground, double, box):
    await ground.run(box, "true")
    (row,) = await ground.rows.live()
    double.drop(next(iter(double.containers())))
    healed = await compare(ground.engine, ground.rows, ground.rows.live)
    assert healed == ((), (row,)) and ground.rows.rows[row] == "it was not there any more"


async def test_what_is_being_made_is_left_alone(ground, double, box):
    double.rule("hold", "run")
    task = asyncio.ensure_future(ground.run(box, "echo made"))
    while not any(line[0] == "run" for line in double.commands()):
        await asyncio.sleep(0.01)
    assert await compare(ground.engine, ground.rows, ground.rows.live) == ((), ())
    double.lift("hold")
    assert (await task).text == "made\n"


async def test_a_command_whose_container_is_removed_under_it_ends(ground, double, box):
    process = await ground.start(box, "echo ready; sleep 1000")
    await read_until(process, "ready")
    await ground.engine.remove(next(iter(double.containers())))
    await process.wait()
    assert await process.count_left() == 0
    await process.stop()


async def test_an_engine_that_does_not_answer_is_given_up(ground, double):
    ground.docker(double)
    double.rule("hold", "ps")
    with pytest.raises(ProcessError, match="took over"):
        await ground.engine.ask("ps", seconds=0.2)


def engine_runs():
    program = shutil.which("docker") or shutil.which("podman")
    return (
        bool(program)
        and subprocess.run([program, "info"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif("not engine_runs()", reason="no container engine runs here")
async def test_the_real_engine(ground):
    from tenure.testing.engine import EngineDouble

    program = shutil.which("docker") or shutil.which("podman")
    double = EngineDouble(ground.base)
    double.path = program
    box = ground.docker(double)
    box._engine.config = type(box._engine.config)(program=program)
    said = await ground.run(
        box, "echo hi > made; cat made; id -u", argv=("/bin/sh", "-c", "echo hi")
    )
    assert said.text.startswith("hi")
    await ground.session.close()
    assert await ground.engine.listed() == []
