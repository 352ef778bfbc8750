"""A gateway that reads the web: hosts are asked about once, and what is not reached is told."""

from __future__ import annotations

import json

import pytest

from support.commands import Place
from support.served import serving
from tenure.testing.model_server import Answer, ModelServer


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


@pytest.fixture
async def site():
    async with ModelServer() as server:
        server.fallback = Answer(b"<title>Here</title><p>Hello", content_type="text/html")
        yield server


def fetch(port: int, host: str, path: str = "/") -> dict:
    url = f"http://{host}:{port}{path}"
    return {"call": {"name": "web_fetch", "arguments": {"url": url}}}


async def test_a_host_is_asked_about_once_and_its_answer_is_kept(place, site):
    place.config(f'[web]\nallow = ["127.0.0.1:{site.port}", "localhost:{site.port}"]\n')
    ref = place.script(
        fetch(site.port, "127.0.0.1"),
        fetch(site.port, "127.0.0.1", "/more"),
        fetch(site.port, "localhost"),
        {"text": "read"},
    )
    with serving(place, "--model", ref) as served:
        async with served.client() as client:
            session = await client.ready_session(cwd=str(place.work))
            await client.call("prompt.submit", session_id=session, text="look")
            asked = (await client.until("approval.request", session)).payload
            assert f"http://127.0.0.1:{site.port}/" in asked["command"]
            assert "web_fetch: 127.0.0.1" in json.dumps(asked)
            await client.call("approval.respond", session_id=session, choice="always")
            for _ in range(2):  # the second page of that host is not asked about
                done = (await client.until("tool.complete", session)).payload
                assert "Hello" in json.dumps(done)
            asked = (await client.until("approval.request", session)).payload
            assert "localhost" in asked["command"]
            await client.call("approval.respond", session_id=session, choice="deny")
            await client.until("message.complete", session)
    assert [request.path for request in site.requests] == ["/", "/more"]
    (grant,) = json.loads((place.home / "grants.json").read_text())
    assert (grant["tool"], grant["host"]) == ("web_fetch", "127.0.0.1")
    assert "web_fetch: 127.0.0.1" in place.run("approvals", "list").out


async def test_this_machine_is_not_reached_whoever_says_yes(place, site):
    ref = place.script(fetch(site.port, "127.0.0.1"), {"text": "no"})
    ran = place.run("run", "--yes", "--json", "--model", ref, "look")
    assert ran.code == 0
    assert "is this machine; it is reached only if [web] allow" in ran.out
    assert site.requests == []
