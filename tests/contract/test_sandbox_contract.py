"""What every sandbox keeps to."""

from __future__ import annotations

import asyncio
import signal

import pytest

from support.boxes import Ground, needs_bwrap, read_all, read_until
from support.sshd import needs_sshd, sshd
from tenure.errors import ProcessError
from tenure.processes.procfs import read_stat
from tenure.processes.terminal import Screen
from tenure.sandbox.base import Order
from tenure.testing.engine import write_engine

KINDS = [
    "local",
    pytest.param("bubblewrap", marks=needs_bwrap),
    pytest.param("ssh", marks=needs_sshd),
    "docker",  # by a command line that answers as recorded; by a real one in test_docker.py
]


@pytest.fixture
async def ground(tmp_path):
    ground = Ground(tmp_path)
    yield ground
    await ground.session.close()
    await ground.root.close()


@pytest.fixture(params=KINDS)
async def sandbox(request, tmp_path, ground):
    if request.param == "ssh":
        with sshd(tmp_path / "sshd") as server:
            yield ground.ssh(server)
            await ground.session.close()
    elif request.param == "docker":
        yield ground.docker(write_engine(tmp_path / "engine"))
    else:
        yield {"local": ground.local, "bubblewrap": ground.box}[request.param]()


def running(pid):
    stat = read_stat(pid)
    return stat is not None and not stat.gone


async def test_it_says_what_it_is(sandbox):
    told = sandbox.confinement
    assert told.about and told.kind in {"local", "bubblewrap", "docker", "ssh"}


async def test_a_command_runs_in_the_working_directory(ground, sandbox):
    said = await ground.run(sandbox, "pwd; echo hello > made; cat made; echo bad >&2; exit 3")
    assert said.status == 3
    assert said.text == f"{sandbox.root}\nhello\nbad\n"
    assert (await ground.run(sandbox, "cat made")).text == "hello\n"


async def test_variables_and_the_label_reach_it(ground, sandbox):
    said = await ground.run(sandbox, "echo $WORD ${#TENURE_OWNER}", env={"WORD": "a b"})
    word, _, length = said.text.strip().rpartition(" ")
    assert word == "a b" and int(length) > 0


async def test_input_goes_in_until_its_end(ground, sandbox):
    process = await ground.start(sandbox, "read line; echo got $line; cat", stdin="pipe")
    await process.write(b"one\n")
    assert "got one" in await read_until(process, "got one\n")
    await process.stop()
    with pytest.raises(ProcessError):
        await process.write(b"late")


async def test_without_input_it_reads_the_end(ground, sandbox):
    assert await ground.run(sandbox, "cat; echo over") == ("over\n", 0)


async def test_what_is_left_running_is_counted_and_ended(ground, sandbox):
    process = await ground.start(sandbox, "sleep 1000 & sleep 1001 & echo started")
    await read_until(process, "started")
    assert await process.wait() == 0
    assert await process.count_left() == 2
    await process.stop()
    assert await process.count_left() == 0
    assert ground.turn.census() == []


async def test_one_that_ignores_everything_is_killed(ground, sandbox):
    process = await ground.start(
        sandbox, "trap '' INT TERM HUP; echo deaf; while :; do sleep 1; done"
    )
    await read_until(process, "deaf")
    await process.stop()
    assert process.returncode is not None and not running(process.pid)


async def test_a_cancelled_start_leaves_nothing(ground, sandbox):
    task = asyncio.ensure_future(ground.start(sandbox, "sleep 1000"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await ground.turn.close()
    assert [entry for entry in ground.root.census() if entry.kind == "process"] == []


async def test_a_close_of_the_scope_ends_it(ground, sandbox):
    process = await ground.start(sandbox, "sleep 1000")
    await ground.turn.close()
    assert process.returncode is not None and not running(process.pid)


async def test_everything_hears_a_signal(ground, sandbox):
    command = "trap 'echo heard; exit 5' USR1; echo ready; while :; do sleep 0.01; done"
    process = await ground.start(sandbox, command)
    await read_until(process, "ready")
    await process.signal_all(signal.SIGUSR1)
    await read_until(process, "heard")
    await process.stop()


async def test_a_terminal_has_a_size_a_foreground_job_and_an_end(ground, sandbox):
    order = Order(("/bin/bash", "--norc", "-i"), screen=Screen(101, 31), env={"PS1": "> "})
    process = await sandbox.start(ground.turn, order)
    await process.write(b"stty size; echo o''k\n")
    assert "31 101" in await read_until(process, "ok\r\n")
    assert process.terminal.resize(Screen(70, 20))
    await process.write(b"stty size; echo o''k; cat\n")
    assert "20 70" in await read_until(process, "ok\r\n")
    await process.write(b"mirror\n")
    await read_until(process, "mirror\r\nmirror")  # so it has the terminal
    assert process.terminal.press(signal.SIGINT)
    await read_until(process, "> ")
    await process.write(b"echo after=$?\n")
    assert "after=130" in await read_until(process, "after=130")
    await process.write(b"exit 7\n")
    await read_all(process)
    assert await process.wait() == 7
    await process.stop()
    assert not process.terminal.resize(Screen()) and not process.terminal.press(signal.SIGINT)


async def test_a_terminal_ends_with_its_scope_whatever_it_ignores(ground, sandbox):
    order = Order(("/bin/bash", "--norc", "-i"), screen=Screen())
    process = await sandbox.start(ground.turn, order)
    await process.write(b"trap '' HUP TERM; (trap '' HUP TERM; sleep 1000) & echo rea''dy\n")
    await read_until(process, "ready\r\n")
    await ground.turn.close()
    assert await process.count_left() == 0 and not running(process.pid)


async def test_a_program_that_is_not_there(ground, sandbox):
    order = Order(("/nowhere/at-all",))
    try:
        process = await sandbox.start(ground.turn, order)
    except ProcessError as exc:
        assert "/nowhere/at-all" in exc.message
    else:
        assert "/nowhere/at-all" in await read_all(process)
        assert await process.wait() != 0
