"""Case 90: a connection that fails half-way, or that the other side ends, leaves no socket behind."""

import os

import pytest

from tenure.errors import ToolError
from tenure.settings import WebConfig
from tenure.testing.desk import Desk
from tenure.testing.model_server import Answer, ModelServer
from tenure.testing.plugin import open_fds
from tenure.testing.waiting import until
from tenure.tools.web.fetch import WebFetch
from tenure.tools.web.reach import Reach

TIMES = 25
PLAIN = {"content_type": "text/plain"}
FAILURES = {
    "refused": None,
    "no answer": Answer(hang_up=True),
    "broken off": Answer(b"half", abort=True, **PLAIN),
    "kept open": Answer(b"whole", headers={"connection": "keep-alive"}, **PLAIN),
    "handshake": None,
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_no_socket_is_left(tmp_path, failure):
    desk = Desk(tmp_path, dict(os.environ))
    async with ModelServer() as server:
        if FAILURES[failure] is not None:
            server.fallback = FAILURES[failure]
        port = 1 if failure == "refused" else server.port
        scheme = "https" if failure == "handshake" else "http"
        config = WebConfig(allow=("127.0.0.1",), timeout_s=0.05 if failure == "handshake" else 30.0)
        tool = WebFetch(config, 100, Reach({}))

        async def once():
            try:
                await desk.call(tool, url=f"{scheme}://127.0.0.1:{port}/")
            except ToolError:
                return

        await once()
        before = len(open_fds())
        for _ in range(TIMES):
            await once()
        await until(lambda: not server.connections)
        await until(lambda: len(open_fds()) <= before, "both ends are closed")
        await desk.end_turn()
        assert desk.leases() == []
    await desk.root.close()
