"""Case 96: what is said stays in the transcript store; logs, exports and the rest hold no secret."""

from __future__ import annotations

import pytest

from support.commands import Place
from support.served import serving

PROMPT = "canary-prompt-71c1"
ARGUMENT = "canary-argument-8a02"
DENIED = "canary-denied-55e9"
OUTPUT = "canary-output-0d4f"
FAILURE = "canary-exception-c3b7"
KEY = "sk-canary0123456789abcdefghij"
OTHER_KEY = "canary-other-provider-key-4410"
QUOTED = "sk-canaryquotedinanerror00001"

CANARIES = (PROMPT, ARGUMENT, DENIED, OUTPUT, FAILURE, KEY, OTHER_KEY, QUOTED)
SHELL = "shell"


def call(command: str) -> dict:
    return {"call": {"name": SHELL, "arguments": {"command": command}}}


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path, {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": OTHER_KEY})


async def test_canaries_are_in_the_database_alone(place):
    place.config(
        f"log_level = 'debug'\n[[approvals.rules]]\ndecision = 'deny'\ntool = 'shell'\ncommand = '*{DENIED}*'\n"
    )
    ref = place.script(
        [call(f"echo {ARGUMENT} >/dev/null; echo {OUTPUT[:12]}''{OUTPUT[12:]} >&2; exit 3"), call(f"echo {DENIED}")],
        {"text": "Done."},
        [{"error": {"status": 400, "message": f"{FAILURE}: the key {QUOTED} is wrong"}}],
        [call("env")],
        {"text": "Seen."},
    )  # fmt: skip
    with serving(place, "--model", ref) as served:
        async with served.client() as client:
            session = await client.ready_session(auto_approve=True)
            results = []
            for text in (PROMPT, "fail", "look around"):
                await client.call("prompt.submit", session_id=session, text=text)
                await client.until("message.complete")
            results = [e.payload["result"] for e in client.seen if e.type == "tool.complete"]
        assert any(OUTPUT in r for r in results)
        assert not any(KEY in r or OTHER_KEY in r for r in results), "children get none of our keys"
        outputs = [place.run(*args) for args in (["ps"], ["logs", "-n", "1000"], ["doctor"])]
        exported = place.run("sessions", "export", "last")
        assert served.stop() == 0
        said = served.process.stdout.read() + served.process.stderr.read()
    outside = said.decode() + "".join(r.out + r.err for r in outputs)
    for canary in CANARIES:
        assert canary not in outside, canary
    assert PROMPT in exported.out, "an export is the conversation"
    for secret in (KEY, OTHER_KEY, QUOTED):
        assert secret not in exported.out
    database = {"tenure.db", "tenure.db-wal", "tenure.db-shm"}
    for path in place.home.rglob("*"):
        if path.is_file() and path.name not in database:
            content = path.read_bytes()
            found = [c for c in CANARIES if c.encode() in content]
            assert not found or (path.name == "config.toml" and found == [DENIED]), (path, found)
