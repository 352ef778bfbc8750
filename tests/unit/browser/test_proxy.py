"""The proxy between the browser and the network, spoken to as Chromium does."""

import asyncio
import contextlib

import pytest

from tenure.browser import proxy as proxies
from tenure.browser.proxy import open_proxy
from tenure.clock import SystemClock
from tenure.lifecycle.scope import Scope
from tenure.net.addresses import AddressRules
from tenure.net.dialing import Dialer
from tenure.testing.gates import Gate
from tenure.testing.model_server import Answer, ModelServer


@pytest.fixture
async def scope():
    scope = Scope.root("proxy", SystemClock())
    failures = []
    scope.on_failure = lambda failure, error: failures.append((failure, error))
    yield scope
    await scope.close()
    assert failures == []


@pytest.fixture
async def server():
    async with ModelServer() as server:
        yield server


async def names(host, port):
    return {
        "site.test": ["127.0.0.1"],
        "meta.test": ["169.254.169.254"],
        "2130706433": ["127.0.0.1"],
    }[host]


async def make(scope, server, **more):
    rules = AddressRules([f"127.0.0.1:{server.port}"])
    return await open_proxy(scope, Dialer(rules, scope.clock, names), **more)


async def say(proxy, text, *, wait=True):
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(text.replace("\n", "\r\n").encode())
    try:
        return (await asyncio.wait_for(reader.read(), 10)).decode() if wait else (reader, writer)
    finally:
        if wait:
            await hang_up(writer)


async def hang_up(*writers):
    for writer in writers:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def test_a_plain_request_is_passed_on_and_ends_its_connection(scope, server):
    server.answer(Answer(b"hello", content_type="text/plain", headers={"connection": "keep-alive"}))
    proxy = await make(scope, server)
    reader, writer = await say(
        proxy,
        f"GET http://site.test:{server.port}/a?b HTTP/1.1\nHost: site.test\n"
        "Proxy-Connection: keep-alive\nCookie: c=1\n\n",
        wait=False,
    )
    said = (await reader.readuntil(b"\r\n0\r\n\r\n")).decode()
    await hang_up(writer)
    async with asyncio.timeout(30):
        while server.connections:
            await asyncio.sleep(0.002)
    assert said.startswith("HTTP/1.1 200 Answer\r\n")
    assert "Connection: close" in said and "keep-alive" not in said and "hello" in said
    (request,) = server.requests
    assert (request.path, request.headers["cookie"]) == ("/a?b", "c=1")
    assert "proxy-connection" not in request.headers
    assert request.headers["connection"] == "close"


async def test_a_body_is_passed_on_and_nothing_after_it(scope, server):
    gate = Gate()
    server.answer(Answer(gate, b"done", content_type="text/plain"))
    proxy = await make(scope, server)
    reader, writer = await say(
        proxy,
        f'POST http://site.test:{server.port}/ HTTP/1.1\nHost: x\nContent-Length: 7\n\n{{"a":1}}',
        wait=False,
    )
    await gate.wait_parked()
    assert server.requests[0].body == {"a": 1}
    writer.write(b"GET http://meta.test/ HTTP/1.1\r\n\r\n")  # would go to the first host
    assert b"done" not in await asyncio.wait_for(reader.read(), 10)
    await server.requests[0].gone.wait()
    gate.release()
    await hang_up(writer)
    assert len(server.requests) == 1


async def test_a_tunnel(scope, server):
    server.answer(Answer(b"inside", content_type="text/plain"))
    proxy = await make(scope, server)
    reader, writer = await say(proxy, f"CONNECT site.test:{server.port} HTTP/1.1\n\n", wait=False)
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connected\r\n\r\n"
    writer.write(b"GET /x HTTP/1.1\r\n\r\n")
    assert b"inside" in await reader.readuntil(b"inside")
    await hang_up(writer)
    async with asyncio.timeout(30):
        while server.connections:
            await asyncio.sleep(0.002)


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("CONNECT meta.test:443", "meta.test:443"),
        ("CONNECT 169.254.169.254:80", "169.254.169.254:80"),
        ("CONNECT [::1]:80", "::1:80"),
        ("CONNECT 127.0.0.1:1", "127.0.0.1:1"),
        ("GET http://meta.test/latest", "meta.test:80"),
        ("GET http://2130706433:1/", "2130706433:1"),
    ],
)
async def test_what_is_not_reached_is_refused_and_remembered(scope, server, target, host):
    proxy = await make(scope, server)
    said = await say(proxy, f"{target} HTTP/1.1\nHost: x\n\n")
    assert said.startswith("HTTP/1.1 403 Refused")
    assert "[web] allow" in said
    assert "is reached only if [web] allow" in proxy.refusals[host]


async def test_its_own_port_leads_nowhere(scope, server):
    proxy = await make(scope, server)
    assert "403" in await say(proxy, f"GET http://127.0.0.1:{proxy.port}/ HTTP/1.1\n\n")


@pytest.mark.parametrize(
    "request_text",
    [
        "garbage\n\n",
        "GET /no/absolute HTTP/1.1\n\n",
        "GET ftp://site.test/ HTTP/1.1\n\n",
        "GET file:///etc/passwd HTTP/1.1\n\n",
        "CONNECT site.test:x HTTP/1.1\n\n",
        "POST http://site.test/ HTTP/1.1\nTransfer-Encoding: chunked\n\n",
        "POST http://site.test/ HTTP/1.1\nContent-Length: -4\n\n",
        "POST http://site.test/ HTTP/1.1\nContent-Length: \N{SUPERSCRIPT TWO}\n\n",
        f"POST http://site.test/ HTTP/1.1\nContent-Length: {'9' * 5_000}\n\n",
        "GET http://u:p@site.test/ HTTP/1.1\n\n",
        "GET http://site.test/" + "x" * 70_000 + " HTTP/1.1\n\n",
    ],
)
async def test_what_is_no_request_is_not_passed_on(scope, server, request_text):
    proxy = await make(scope, server)
    said = await say(proxy, request_text)
    assert said == "" or said.startswith(("HTTP/1.1 4", "HTTP/1.1 5"))
    assert server.requests == []


async def test_an_endless_answer_is_cut_off(scope, server):
    gate = Gate()
    server.answer(Answer(*[b"x" * 65_536] * 40, gate, content_type="text/plain"))
    proxy = await make(scope, server, bytes_max=1024 * 1024)
    said = await say(proxy, f"GET http://site.test:{server.port}/ HTTP/1.1\n\n")
    assert 900_000 < len(said) < 1_200_000
    assert "more than 1 MB" in proxy.refusals[f"site.test:{server.port}"]
    await server.requests[0].gone.wait()
    gate.release()


async def test_connections_are_bounded(scope, server, monkeypatch):
    monkeypatch.setattr(proxies, "CONNECTIONS_MAX", 2)
    proxy = await make(scope, server)
    held = [await say(proxy, "GET", wait=False) for _ in range(2)]
    await asyncio.sleep(0)
    reader, writer = await say(proxy, "GET", wait=False)
    with pytest.raises((ConnectionError, AssertionError)):
        assert await asyncio.wait_for(reader.read(), 10) != b""
    await hang_up(*(one for _, one in [*held, (reader, writer)]))


async def test_closing_the_scope_ends_everything(server):
    scope = Scope.root("proxy", SystemClock())
    gate = Gate()
    server.answer(Answer(gate))
    proxy = await make(scope, server)
    reader, writer = await say(
        proxy, f"GET http://site.test:{server.port}/ HTTP/1.1\n\n", wait=False
    )
    await gate.wait_parked()
    await scope.close()
    assert await asyncio.wait_for(reader.read(), 10) == b""
    await server.requests[0].gone.wait()
    gate.release()
    await hang_up(writer)
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", proxy.port)


async def test_another_proxy_behind_it(scope, server):
    async def upstream(reader, writer):
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].decode())
        if "bad" in asked[-1]:
            writer.write(b"HTTP/1.1 502 No\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup")
        writer.close()

    asked = []
    up = await asyncio.start_server(upstream, "127.0.0.1", 0)
    port = up.sockets[0].getsockname()[1]
    proxy = await make(scope, server, upstream=f"http://127.0.0.1:{port}")
    assert (await say(proxy, "GET http://far.test/ HTTP/1.1\n\n")).endswith("up")
    assert "does not connect to bad.test" in await say(proxy, "GET http://bad.test/ HTTP/1.1\n\n")
    assert "403" in await say(proxy, "GET http://169.254.169.254/ HTTP/1.1\n\n")
    assert asked == ["CONNECT far.test:80 HTTP/1.1", "CONNECT bad.test:80 HTTP/1.1"]
    up.close()
