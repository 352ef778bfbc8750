"""Sessions whose model starts background processes that end when a test says so."""

from __future__ import annotations

import os

from tenure.models.script import Script
from tenure.tools.background import Background

SAID = "Background process b1"


def job_tools(*_):
    return (Background(5_000, 4),)


def job_script(command: str, *, then=(), **more) -> Script:
    """The prompt "start" starts `command`; everything else is answered with `then`, in order."""
    call = {"call": {"name": "background", "arguments": {"action": "start", "command": command}}}
    return Script([*then] or [{"text": "Fine."}], loop=True, on=[
        {"match": "start", "step": call}, {"match": "[b1: ", "step": {"text": "Started."}}],
        **more)  # fmt: skip


class Latch:
    """A process that runs `command` waits until it is let go, then exits with 3."""

    def __init__(self, folder) -> None:
        self.path = folder / "latch"
        os.mkfifo(self.path)
        self.command = f"echo up; read x < {self.path}; exit 3"
        self._end = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)  # so that nobody waits for us

    def let_go(self) -> None:
        os.write(self._end, b"go\n")

    def close(self) -> None:
        os.close(self._end)


async def say(client, session: str, text: str) -> None:
    """One turn, to its end."""
    await client.call("prompt.submit", session_id=session, text=text)
    await client.until("message.complete", session)


def told(script: Script, session: str) -> list[int]:
    """How often the note stands in each request of a session."""
    mine = [request for request in script.requests if request.session_id == session]
    return [sum(m.text.count(SAID) for m in request.messages) for request in mine]
