"""Case 95: the token is shown by `tenure url` alone, and sent to nobody but its own gateway."""

from __future__ import annotations

import asyncio
import json

from support.commands import Place
from support.served import serving


def files_with(root, mark: str, *spared: str) -> list[str]:
    """Files below `root` that hold `mark`, but for those named."""
    return [
        path.name
        for path in root.rglob("*")
        if path.is_file() and path.name not in spared and mark.encode() in path.read_bytes()
    ]


async def test_the_token_is_in_one_file_and_one_output(tmp_path):
    place = Place(tmp_path)
    ref = place.script({"text": "An answer."}, [{"error": {"status": 400, "message": "bad"}}])
    with serving(place, "--model", ref, "--log-level", "debug") as served:
        token = served.token
        assert token not in json.dumps(served.facts)
        assert token in place.run("url").out
        async with served.client() as client:
            session = await client.ready_session()
            for text in ("one", "two"):
                await client.call("prompt.submit", session_id=session, text=text)
                await client.until("message.complete")
            assert token not in json.dumps(await client.call("census.get"))
        outputs = [
            place.run(*args)
            for args in (
                ["ps"], ["ps", "--json"], ["doctor"], ["logs"], ["sessions", "list"],
                ["sessions", "export", "last"], ["config", "check"], ["serve", "--port", "0"],
                ["run", "--connect", served.attach_url, "hi"],
                ["run", "--connect", f"ws://127.0.0.1:1/api/ws?token={token}", "hi"],
                ["run", "--connect", f"not-a-url?token={token}", "hi"],
            )
        ]  # fmt: skip
        assert served.stop() == 0
        err = served.process.stderr.read().decode()
    for ran in outputs:
        assert token not in ran.out + ran.err, ran.args
    assert token not in err
    assert files_with(place.home, token) == ["token"]
    assert (place.home / "token").stat().st_mode & 0o077 == 0


async def test_a_link_to_another_gateway_gets_no_token_of_ours(tmp_path):
    place = Place(tmp_path)
    heard: list[bytes] = []

    async def listen(reader, writer):
        heard.append(await reader.read(65536))
        writer.close()

    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(listen, "0.0.0.0", 0)
    port = server.sockets[0].getsockname()[1]
    place.extra["TENURE_TOKEN"] = ""
    try:
        with serving(place) as served:  # the home's own gateway lives beside the link's
            for host in ("127.0.0.1", "127.0.0.2", "localhost"):
                url = f"ws://{host}:{port}/api/ws"
                await loop.run_in_executor(None, place.run, "run", "--connect", url, "hi")
            token = served.token
    finally:
        server.close()
        await server.wait_closed()
        await loop.shutdown_default_executor()
    assert len(heard) == 3, "they were asked"
    assert token.encode() not in b"".join(heard)
