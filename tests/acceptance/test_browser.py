"""A gateway with a browser: a turn that uses it, a close, and SIGKILL of the gateway."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from support.chromium import parked
from support.commands import Place
from support.needs import need
from support.served import pids_with, serving, wait_for
from tenure.processes.procfs import all_stats, with_descendants
from tenure.testing.gates import Gate
from tenure.testing.model_server import Answer, ModelServer

pytestmark = pytest.mark.slow
GONE_S = 15.0


@pytest.fixture
def place(tmp_path) -> Place:
    need("chromium")
    return Place(tmp_path)


@pytest.fixture
async def site():
    async with ModelServer() as server:
        server.by_path["/"] = Answer(b"<title>Here</title><h1>Hello</h1>", content_type="text/html")
        yield server


def browse(port: int, path: str = "/") -> dict:
    url = f"http://127.0.0.1:{port}{path}"
    return {"call": {"name": "browser", "arguments": {"action": "navigate", "url": url}}}


def instance_of(place: Place) -> str:
    """``home-start`` of the gateway that runs, or ran last."""
    return json.loads((place.home / "gateway.json").read_text())["instance"]


def running(instance: str) -> set[int]:
    """The host, the driver and Chromium of that gateway, by their label, and what is below them."""
    labelled = pids_with(f"TENURE_OWNER={instance}/")
    stats = all_stats()
    below = with_descendants([stat for stat in stats if stat.pid in labelled], stats)
    return {stat.pid for stat in below if not stat.gone}


def folders(instance: str) -> list[Path]:
    return list(Path("/tmp").glob(f"tenure-browser-{instance}-*"))


async def test_a_turn_uses_it_and_the_close_of_the_session_frees_it(place, site):
    place.config(f'[web]\nallow = ["127.0.0.1:{site.port}"]\n')
    ref = place.script([browse(site.port)], {"text": "seen"})
    with serving(place, "--model", ref) as served:
        instance = instance_of(place)
        async with served.client() as client:
            session = await client.ready_session(auto_approve=True, cwd=str(place.work))
            await client.call("prompt.submit", session_id=session, text="look")
            done = await client.until("tool.complete", session)
            assert "Here" in str(done.payload), done
            await client.until("message.complete", session)
            census = await client.call("census.get")
            kinds = {(e["kind"], e["label"]) for e in census["entries"]}
            assert ("browser context", session) in kinds
            assert ("process", "browser host") in kinds
            (chromium,) = [e for e in census["entries"] if e["kind"] == "chromium"]
            assert chromium["pid"] in running(instance)
            await client.call("session.close", session_id=session)
            census = await client.call("census.get")
            assert "browser context" not in {e["kind"] for e in census["entries"]}
        assert folders(instance)
        assert served.stop() == 0
    assert folders(instance) == []
    assert not running(instance)


async def test_an_interrupt_and_a_close_in_the_middle_of_a_navigation(place, site):
    place.config(f'[web]\nallow = ["127.0.0.1:{site.port}"]\n')
    steps = [
        browse(site.port, "/hang"),
        browse(site.port),
        {"text": "ok"},
        browse(site.port, "/hang2"),
    ]
    ref = place.script(*steps)
    gates = [Gate(), Gate()]
    site.by_path["/hang"], site.by_path["/hang2"] = (Answer(gate) for gate in gates)
    with serving(place, "--model", ref) as served:
        async with served.client() as client:
            session = await client.ready_session(auto_approve=True, cwd=str(place.work))
            await client.call("prompt.submit", session_id=session, text="look")
            await parked(gates[0])
            await client.call("session.interrupt", session_id=session)
            done = (await client.until("message.complete", session)).payload
            assert done["state"] == "interrupted"
            await client.call("prompt.submit", session_id=session, text="again")
            assert "Here" in str((await client.until("tool.complete", session)).payload)
            await client.until("message.complete", session)
            await client.call("prompt.submit", session_id=session, text="and again")
            await parked(gates[1])
            await client.call("session.close", session_id=session)
            kinds = {e["kind"] for e in (await client.call("census.get"))["entries"]}
            assert not {"browser context", "borrowed browser"} & kinds
        await site.requests[-1].gone.wait()
    for gate in gates:
        gate.release()


async def test_nothing_of_it_survives_the_gateway(place, site):
    place.config(f'[web]\nallow = ["127.0.0.1:{site.port}"]\n')
    ref = place.script([browse(site.port)], {"text": "seen"})
    with serving(place, "--model", ref) as served:
        async with served.client() as client:
            session = await client.ready_session(auto_approve=True, cwd=str(place.work))
            await client.call("prompt.submit", session_id=session, text="look")
            await client.until("message.complete", session)
        instance = instance_of(place)
        pids = running(instance)
        assert len(pids) >= 5  # renderers among them
        (left,) = folders(instance)
        os.kill(served.pid, signal.SIGKILL)
        wait_for(lambda: not any(map(_lives, pids)), "the browser has gone", GONE_S)
        served.process.wait(30)
    assert left.exists()  # nobody was there to remove it
    with serving(place, "--model", ref):
        wait_for(lambda: not left.exists(), "the next start has swept the folder")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
