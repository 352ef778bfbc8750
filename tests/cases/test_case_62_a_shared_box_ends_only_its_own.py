"""Case 62: sessions in one folder, boxed alike, end their own processes and no look-alike's."""

from __future__ import annotations

import subprocess

import pytest

from support.boxes import Ground, needs_bwrap, read_until
from tenure.sandbox.bubblewrap import Bubblewrap, Layout

pytestmark = needs_bwrap


@pytest.fixture
async def ground(tmp_path):
    ground = Ground(tmp_path)
    yield ground
    await ground.root.close()


async def test_a_close_ends_the_commands_of_that_session_alone(ground):
    def box(name, scope):
        layout = Layout(ground.work, ground.user, ground.home, ground.home / "boxes")
        return Bubblewrap(ground.spawner, layout, name, scope, "a test")

    scopes = {name: ground.root.child(name) for name in ("one", "two")}
    running = {}
    for name, scope in scopes.items():
        running[name] = await box(name, scope).start(
            scope, order("echo ready; touch /tmp/mine; sleep 62001")
        )
        await read_until(running[name], "ready")
    alike = subprocess.Popen(["sleep", "62001"])
    try:
        await scopes["one"].close()
        assert running["one"].returncode is not None
        assert running["two"].returncode is None and alike.poll() is None
        assert not (ground.home / "boxes/one").exists()
        assert (ground.home / "boxes/two/tmp").exists()
        await scopes["two"].close()
        assert running["two"].returncode is not None and alike.poll() is None
    finally:
        alike.kill()
        alike.wait()


def order(command):
    from tenure.sandbox.base import Order

    return Order(("/bin/bash", "-c", command))
