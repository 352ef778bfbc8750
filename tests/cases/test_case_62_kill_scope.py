"""Case 62: an end reaches the owner's own processes only: no sibling, no look-alike, not us."""

from __future__ import annotations

import asyncio
import os

import pytest

from tenure.processes.procfs import read_stat
from tenure.testing.desk import Desk
from tenure.tools.background import Background

JOB = Background(1_000, 4)


def alive(pid):
    stat = read_stat(pid)
    return stat is not None and not stat.gone


@pytest.fixture
async def desk(tmp_path):
    desk = Desk(tmp_path, dict(os.environ))
    yield desk
    await desk.root.close()


async def start(desk, session):
    """The same command for everybody."""
    context = desk.context()
    context.session = session
    context.session_id = session.name
    context.state = {}
    await JOB.call('{"action": "start", "command": "echo up; sleep 1000 & wait"}', context)
    (job,) = context.state["background"].all()
    return job


async def test_closing_one_session_ends_its_processes_only(desk):
    parent, sibling = desk.root.child("parent"), desk.root.child("sibling")
    child = parent.child("child")
    look_alike = await desk.spawner.spawn(desk.root, ["sh", "-c", "sleep 1000 & wait"])
    jobs = {scope.name: await start(desk, scope) for scope in (parent, sibling, child)}
    assert len({os.getpgid(job.process.pid) for job in jobs.values()} | {os.getpgid(0)}) == 4

    await child.close()
    assert not alive(jobs["child"].process.pid)
    assert all(
        map(alive, (jobs["parent"].process.pid, jobs["sibling"].process.pid, look_alike.pid))
    )
    await parent.close()
    assert not alive(jobs["parent"].process.pid)
    assert all(map(alive, (jobs["sibling"].process.pid, look_alike.pid)))
    await asyncio.sleep(0)
