"""`tenure serve` that cannot start says why in one sentence; what fails later loses nothing."""

from __future__ import annotations

import json
import os
import resource
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import Place
from support.served import serving
from tenure.errors import StoreError
from tenure.protocol.messages import EventParams


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


def test_a_busy_port(place):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = place.run("serve", "--port", str(taken.getsockname()[1]))
    assert ran.code == 2 and "choose another with --port" in ran.sentence
    assert not (place.home / "gateway.json").exists()


def test_a_second_gateway_on_the_same_home(place):
    with serving(place) as first:
        ran = place.run("serve", "--port", "0")
        assert ran.code == 2
        assert f"pid {first.pid}" in ran.sentence and "already serves the home" in ran.sentence
        assert place.run("url").out == first.attach_url + "\n"
    ran = place.run("url")
    assert ran.code == 2 and "start `tenure serve`" in ran.sentence
    with serving(place):
        pass


def test_a_home_that_cannot_be_had(place):
    (place.root / "file").touch()
    for home in (place.root / "file", place.root / "file" / "below"):
        ran = place.run("serve", "--port", "0", env={"TENURE_HOME": str(home)})
        assert ran.code == 2 and "TENURE_HOME" in ran.sentence, ran.err


def test_a_home_without_permission(place):
    if os.geteuid() == 0:  # whom no mode stops; there nobody may make a folder
        home = Path("/sys/tenure")
    else:
        home = place.home
        home.mkdir(mode=0o000)
    ran = place.run("serve", "--port", "0", env={"TENURE_HOME": str(home)})
    assert ran.code == 2 and "make it writable" in ran.sentence


@pytest.mark.parametrize(("text", "said"), [
    ("[model\n", "is not valid TOML"),
    ("[server]\nport = 'many'\n", "has a wrong value"),
    ("[[approvals.rules]]\ndecision = 'perhaps'\n", "has a wrong value"),
    ("\xff\xfe", "cannot be read"),
])  # fmt: skip
def test_a_broken_configuration_file(place, text, said):
    place.config("")
    (place.home / "config.toml").write_bytes(text.encode("latin-1"))
    for command in (["serve", "--port", "0"], ["run", "hi"], ["config", "check"]):
        ran = place.run(*command)
        assert ran.code == 2 and said in ran.sentence and "config.toml" in ran.sentence


def test_an_unknown_key_warns_with_the_nearest_and_runs_on(place):
    place.config("[limits]\nqueue_maximum = 3\n")
    ran = place.run("config", "check")
    assert ran.code == 0 and "did you mean limits.queue_max?" in ran.err


async def test_a_newer_database_is_refused_and_left_as_it_is(place):
    with serving(place) as served:
        async with served.client():
            pass  # the store is open now
    base = sqlite3.connect(place.home / "tenure.db")
    base.execute("UPDATE alembic_version SET version_num = '9999'")
    base.commit()
    base.close()
    before = (place.home / "tenure.db").read_bytes()
    ran = place.run("serve", "--port", "0")
    assert ran.code in {1, 2} and "newer" in ran.sentence
    assert (place.home / "tenure.db").read_bytes() == before


def test_a_database_that_is_none(place):
    place.home.mkdir()
    (place.home / "tenure.db").write_bytes(b"no database at all" * 100)
    ran = place.run("serve", "--port", "0")
    assert ran.code in {1, 2} and "tenure.db" in ran.sentence


async def test_a_full_disk_refuses_what_it_cannot_keep_and_loses_nothing(place):
    ref = place.script({"text": "One."}, {"text": "Two."}, {"text": "Three."})
    with serving(place, "--model", ref) as served:
        async with served.client() as client:
            session = await client.ready_session()
            await client.call("prompt.submit", session_id=session, text="first")
            await client.until("message.complete")
            _, hard = resource.prlimit(served.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(served.pid, resource.RLIMIT_FSIZE, (1024, hard))
            with pytest.raises(StoreError) as refused:
                await client.call("prompt.submit", session_id=session, text="no room")
            assert refused.value.message.endswith((".", "space"))
            assert (await client.call("session.history", session_id=session))["count"] == 2
            resource.prlimit(served.pid, resource.RLIMIT_FSIZE, (hard, hard))
            await client.call("prompt.submit", session_id=session, text="second")
            done = await client.until("message.complete")
            assert done.payload["state"] == "completed"
            found = await client.call("session.history", session_id=session)
            assert [m["text"] for m in found["messages"] if m["role"] == "user"] == [
                "first",
                "second",
            ]
        assert served.stop() == 0


GREEDY = """
import fcntl, os, sys
for fd in (0, 1, 2):
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK)
try:
    got = os.read(0, 100_000)
except BlockingIOError:
    got = b""
print("child read", len(got))
print('{"jsonrpc":"2.0","id":1,"result":"forged"}', flush=True)
import time; time.sleep(0.3)
"""


def test_stdio_is_private_to_the_protocol(place):
    (place.root / "greedy.py").write_text(GREEDY)
    command = f"{sys.executable} {place.root / 'greedy.py'}"
    ref = place.script(
        [{"call": {"name": "shell", "arguments": {"command": command}}}], {"text": "It is over."}
    )
    process = place.popen("serve", "--stdio", "--model", ref, stdin=subprocess.PIPE)
    try:
        wire = Wire(process)
        assert wire.event("gateway.ready")
        session = wire.call("session.create", auto_approve=True)["session_id"]
        wire.call("prompt.submit", session_id=session, text="be greedy")
        wire.event("tool.start")
        answers = [wire.call("gateway.info") for _ in range(100)]
        assert len(answers) == 100 and all(a["sessions"] == 1 for a in answers)
        result = wire.event("tool.complete")
        assert "child read 0" in result.payload["result"]
        assert wire.event("message.complete").payload["text"] == "It is over."
        process.stdin.close()
        assert process.wait(30) == 0, "the end of stdin is the end"
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()


class Wire:
    """The other end of `serve --stdio`, line by line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.events: list[EventParams] = []
        self.count = 0

    def read(self) -> dict:
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return json.loads(line)

    def call(self, method: str, **params):
        self.count += 1
        frame = {"jsonrpc": "2.0", "id": f"t{self.count}", "method": method, "params": params}
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")
        self.process.stdin.flush()
        while "id" not in (found := self.read()):
            self.events.append(EventParams(**found["params"]))
        assert found["id"] == f"t{self.count}", found
        return found["result"]

    def event(self, kind: str) -> EventParams:
        while True:
            for n, event in enumerate(self.events):
                if event.type == kind:
                    del self.events[: n + 1]
                    return event
            found = self.read()
            assert "id" not in found, found
            self.events.append(EventParams(**found["params"]))


def test_stray_prints_do_not_reach_the_wire_and_a_bad_line_gets_its_answer(place):
    process = place.popen("serve", "--stdio", stdin=subprocess.PIPE)
    try:
        assert b"gateway.ready" in process.stdout.readline()
        process.stdin.write(b"\n  \nnonsense\n[]\n" + b'{"id":1,"method":"gateway.info"}')
        process.stdin.close()
        codes = [json.loads(process.stdout.readline()) for _ in range(3)]
        assert [c.get("error", {}).get("code") for c in codes] == [-32700, -32600, None]
        assert codes[2]["id"] == 1, "the last line needs no newline"
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()
