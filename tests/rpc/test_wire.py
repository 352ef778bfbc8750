"""Bad input over real sockets against a real `tenure serve`: a typed answer, and nobody else disturbed."""

from __future__ import annotations

import http.client
import json

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from support.commands import Place
from support.served import serving
from tenure.errors import TooLarge
from tenure.transports.admission import BAD_TOKENS_MAX


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("wire"))
    ref = place.script({"text": "An answer."}, loop=True)
    with serving(place, "--model", ref) as served:
        yield served


@pytest.fixture
async def socket(served):
    headers = {"Authorization": f"Bearer {served.token}"}
    async with connect(served.url, additional_headers=headers, max_size=None, proxy=None) as socket:
        ready = json.loads(await socket.recv())
        assert ready["params"]["type"] == "gateway.ready"
        yield socket


async def answer(socket, frame: str | bytes) -> dict:
    await socket.send(frame)
    while True:
        message = json.loads(await socket.recv())
        if message.get("method") != "event":
            return message


@pytest.mark.parametrize(("frame", "code", "an_id"), [
    ("{", -32700, None),
    ("not json", -32700, None),
    ("", -32700, None),
    ("[]", -32600, None),
    ('[{"jsonrpc":"2.0","id":1,"method":"gateway.info"}]', -32600, None),
    ('{"jsonrpc":"2.0","id":"a"}', -32600, "a"),
    ('{"jsonrpc":"2.0","id":2,"method":7}', -32600, 2),
    ('{"jsonrpc":"2.0","id":3,"method":"no.such"}', -32601, 3),
    ('{"jsonrpc":"2.0","id":4,"method":"prompt.submit","params":{"text":5}}', -32602, 4),
    ('{"jsonrpc":"2.0","id":5,"method":"prompt.submit","params":[1]}', -32602, 5),
    ('{"jsonrpc":"2.0","id":6,"method":"prompt.submit","params":"x"}', -32602, 6),
])  # fmt: skip
async def test_a_wrong_frame_gets_its_error_and_the_connection_goes_on(socket, frame, code, an_id):
    refused = await answer(socket, frame)
    assert refused["error"]["code"] == code and refused["id"] == an_id
    assert refused["error"]["message"].endswith(".") and "\n" not in refused["error"]["message"]
    fine = await answer(socket, '{"jsonrpc":"2.0","id":9,"method":"gateway.info"}')
    assert fine["id"] == 9 and "result" in fine


async def test_a_request_without_an_id_is_run_and_not_answered(socket):
    await socket.send('{"jsonrpc":"2.0","method":"session.create","params":{"title":"silent"}}')
    await socket.send('{"jsonrpc":"2.0","method":"no.such"}')
    listed = {"sessions": []}
    for n in range(100):
        found = await answer(socket, json.dumps({"id": n, "method": "session.list"}))
        assert found["id"] == n, "the first answer is to the first request with an id"
        listed = found["result"]
        if any(row["title"] == "silent" for row in listed["sessions"]):
            return
    pytest.fail(f"it was not run: {listed}")


async def test_text_that_is_no_utf8_closes_that_connection_alone(served, socket):
    async with served.client() as other:
        session = await other.ready_session()
        await socket.send(b'{"id":1,"method":"\xff"}', text=True)
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
        assert closed.value.rcvd.code == 1007
        await other.call("prompt.submit", session_id=session, text="hi")
        assert (await other.until("message.complete")).payload["text"] == "An answer."


async def test_a_frame_over_16_mib_closes_that_connection_alone(served, socket):
    async with served.client() as other:
        with pytest.raises(ConnectionClosed) as closed:
            await socket.send("x" * (16 * 1024 * 1024 + 1))
            await socket.recv()
        assert closed.value.rcvd.code == 1009
        assert (await other.call("gateway.info"))["sessions"] >= 0


async def test_a_prompt_over_4_mib_is_refused_in_a_sentence_over_the_socket(served):
    async with served.client() as client:
        session = await client.ready_session()
        with pytest.raises(TooLarge, match=r"the limit is 4 MiB\. Put the text into a file"):
            await client.call("prompt.submit", session_id=session, text="x" * (4 * 1024 * 1024 + 1))
        with pytest.raises(TooLarge):
            await client.call("prompt.submit", session_id=session, text="ü" * (2 * 1024 * 1024 + 1))
        receipt = await client.call("prompt.submit", session_id=session, text="x" * 4 * 1024 * 1024)
        assert receipt["status"] == "streaming"
        await client.until("message.complete")


# --- who may come in -----------------------------------------------------------------------------


def http_status(served, path: str = "/healthz", **headers: str) -> tuple[int, dict]:
    peer = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    try:
        peer.putrequest("GET", path, skip_host="Host" in headers)
        for name, value in headers.items():
            peer.putheader(name, value)
        peer.endheaders()
        found = peer.getresponse()
        return found.status, json.loads(found.read())
    finally:
        peer.close()


async def upgrade_status(served, *, query: str = "", **headers: str) -> int:
    try:
        async with connect(served.url + query, additional_headers=headers, proxy=None):
            return 101
    except InvalidStatus as exc:
        return exc.response.status_code


async def test_the_same_verdict_on_http_and_on_the_upgrade(served):
    good = {"Authorization": f"Bearer {served.token}"}
    for headers, http_code in (
        (good, 200),
        ({**good, "Origin": "http://evil.example"}, 403),
        ({**good, "Origin": f"http://127.0.0.1:{served.port}"}, 200),
        ({**good, "Host": "evil.example"}, 403),
        ({**good, "Host": f"127.0.0.1.evil.example:{served.port}"}, 403),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": served.token}, 401),
        ({}, 401),
    ):
        assert http_status(served, **headers)[0] == http_code, headers
        if "Host" not in headers:
            expected = 101 if http_code == 200 else http_code
            assert await upgrade_status(served, **headers) == expected, headers


async def test_the_token_in_the_query_counts_for_the_upgrade_only(served):
    assert await upgrade_status(served, query=f"?token={served.token}") == 101
    assert await upgrade_status(served, query="?token=wrong") == 401
    assert http_status(served, f"/healthz?token={served.token}")[0] == 401


async def test_many_wrong_tokens_are_throttled_and_the_owner_is_not_locked_out(served):
    seen = {http_status(served, Authorization=f"Bearer {n}")[0] for n in range(BAD_TOKENS_MAX + 2)}
    assert seen == {401, 429}
    assert await upgrade_status(served) == 429
    assert http_status(served, Authorization=f"Bearer {served.token}")[0] == 200
    log = (served.place.home / "logs" / "gateway.log").read_text()
    assert served.token not in log


def test_other_paths_are_not_served(served):
    status, said = http_status(served, "/nothing", Authorization=f"Bearer {served.token}")
    assert status == 404 and "/api/ws" in said["error"]
