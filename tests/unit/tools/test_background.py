"""Background processes belong to the session and end with it."""

import asyncio

import pytest

from tenure.errors import ProcessError, ToolError
from tenure.processes.procfs import read_stat
from tenure.testing.clock import settle
from tenure.tools.background import PAUSE_S, Background, Job

JOBS = Background(5_000, 2)


async def read_until(desk, job, wanted):
    seen = ""
    async with asyncio.timeout(30):
        while wanted not in seen:
            seen += (await desk.call(JOBS, action="read", id=job)).text
            await asyncio.sleep(0.005)
    return seen


async def test_a_job_outlives_the_turn_talks_and_is_stopped(desk):
    started = await desk.call(JOBS, action="start", command="echo ready; cat; echo bye")
    assert started.text.startswith("[b1: running for 0 s]\nready")
    await desk.end_turn()
    await desk.call(JOBS, action="write", id="b1", text="hello\n")
    assert "hello" in await read_until(desk, "b1", "hello")
    assert "b1  running for 0 s  echo ready" in (await desk.call(JOBS, action="list")).text
    assert ("background", "echo") in desk.leases()
    assert (await desk.call(JOBS, action="stop", id="b1")).text.startswith("[b1: stopped]")
    assert (await desk.call(JOBS, action="list")).text == "(none)"
    assert all(kind != "background" for kind, _ in desk.leases())


async def test_a_value_set_before_a_command_is_in_no_label(desk):
    await desk.call(JOBS, action="start", command="KEY=canary cat")
    assert ("background", "KEY") in desk.leases()
    assert "canary" not in str(desk.leases())


async def test_a_job_that_fails_at_once_says_so(desk):
    started = await desk.call(JOBS, action="start", command="echo no >&2; exit 7")
    assert "no" in started.text + await read_until(desk, "b1", "code 7")


async def test_each_read_gives_what_is_new(desk):
    await desk.call(JOBS, action="start", command="echo one; read x; echo two; sleep 1000")
    assert (await desk.call(JOBS, action="read", id="b1")).text == "[b1: running for 0 s]"
    await desk.call(JOBS, action="write", id="b1", text="\n")
    assert "one" not in await read_until(desk, "b1", "two")


async def test_the_number_of_jobs_is_limited_and_finished_ones_make_room(desk):
    for _ in range(2):
        await desk.call(JOBS, action="start", command="echo up; sleep 1000")
    with pytest.raises(ToolError, match="2 background processes run already; stop one first"):
        await desk.call(JOBS, action="start", command="sleep 1000")
    await desk.call(JOBS, action="stop", id="b1")
    await desk.call(JOBS, action="start", command="exit 0")
    await read_until(desk, "b3", "exited with code 0")
    await desk.call(JOBS, action="start", command="echo up; sleep 1000")
    listed = (await desk.call(JOBS, action="list")).text
    assert [line.split()[0] for line in listed.splitlines()] == ["b2", "b4"]


async def test_the_limit_holds_when_several_start_at_once(desk):
    calls = [desk.call(JOBS, action="start", command="echo up; sleep 1000") for _ in range(4)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(result, ToolError) for result in results) == 2


async def test_unknown_jobs_and_closed_inputs_are_told(desk):
    with pytest.raises(ToolError, match="no background process 'b9'; there are: none"):
        await desk.call(JOBS, action="read", id="b9")
    await desk.call(JOBS, action="start", command="exec <&-; echo closed; sleep 1000")
    with pytest.raises(ProcessError):
        await desk.call(JOBS, action="write", id="b1", text="x" * 1_000_000)


async def test_the_session_ends_its_jobs(desk):
    await desk.call(JOBS, action="start", command="sleep 1000 & echo $!; wait")
    (job,) = desk.state["background"].all()
    inner = int((await read_until(desk, "b1", "") or "") or job.ring.since(0)[0])
    await desk.session.close()
    stat = read_stat(inner)
    assert stat is None or stat.gone
    assert desk.leases() == []


class Endless:
    """Output that is never over: large pieces, then small ones."""

    def __init__(self, large):
        self.large = large

    async def read(self):
        self.large -= 1
        return b"y" * (65_536 if self.large >= 0 else 10)


async def test_a_job_that_prints_without_end_is_held_to_a_pace(root, clock):
    job = Job("b1", "yes", None, clock)
    root.spawn(job.pump(Endless(4)), name="pump")
    for pieces in (1, 2, 3, 4):  # one for each pause
        await settle()
        assert job.ring.total == pieces * 65_536
        clock.advance(PAUSE_S)
    await settle()
    assert job.ring.total > 4 * 65_536 + 50, "what prints little is not held up"
    assert len(job.ring.since(0)[0]) == 128 * 1024


async def test_a_job_that_prints_without_end_is_kept_in_its_last_part(desk):
    await desk.call(JOBS, action="start", command="yes")
    (job,) = desk.state["background"].all()
    async with asyncio.timeout(60):
        while job.ring.total < 300_000:
            await asyncio.sleep(0.005)
    assert len(job.ring.since(0)[0]) <= 128 * 1024


async def test_a_job_that_never_reads_holds_the_call_for_a_bounded_time(desk, monkeypatch):
    monkeypatch.setattr("tenure.tools.background.WRITE_S", 0.05)
    await desk.call(JOBS, action="start", command="echo ready; exec sleep 60")
    with pytest.raises(ToolError, match="has not read its input"):
        await desk.call(JOBS, action="write", id="b1", text="x" * 4_000_000)
    assert (await desk.call(JOBS, action="stop", id="b1")).text.startswith("[b1: stopped]")
