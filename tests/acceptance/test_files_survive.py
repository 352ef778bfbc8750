"""SIGKILL while files wait, lie in the queue and stand in the history: the next start has them all."""

from __future__ import annotations

import os
import signal

import pytest

from support.commands import Place
from support.pictures import b64, png
from support.served import serving
from tenure.testing.clock import settle


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


async def test_after_a_kill_each_file_is_where_it_was(place):
    ref = place.script(
        {"text": "One."}, [{"gate": "never"}], {"text": "On."}, {"text": "Queued."}, loop=True,
        on=[
            {"match": "[attached: draft.png", "step": {"text": "I see the draft."}},
            {"match": "[attached: queued.png", "step": {"text": "I see the queued one."}},
        ],
    )  # fmt: skip
    with serving(place, "--model", ref) as served:
        async with served.client() as client:
            session = await client.ready_session(cwd=str(place.work))

            async def attach(name: str, shade: int) -> None:
                sent = b64(png(40, 30 + shade))
                await client.call("file.attach", session_id=session, data_url=sent, name=name)

            await attach("history.png", 0)
            await client.call("prompt.submit", session_id=session, text="look")
            await client.until("message.complete", session)
            await client.call("prompt.submit", session_id=session, text="stay")
            await client.until("message.start", session)
            await attach("queued.png", 1)
            await client.call("prompt.submit", session_id=session, text="wait")
            await attach("draft.png", 2)
            os.kill(served.pid, signal.SIGKILL)
    with serving(place, "--model", ref) as served:
        async with served.client() as client:
            opened = await client.call("session.resume", session_id=session)
            assert opened["info"]["draft"] == ["draft.png (image, 40 x 32 pixels)"]
            while (await _texts(client, session)).count("I see the queued one.") < 1:
                await settle()
            await client.call("prompt.submit", session_id=session, text="and this")
            while "I see the draft." not in await _texts(client, session):
                await settle()
            history = (await client.call("session.history", session_id=session))["messages"]
            names = [file["name"] for message in history for file in message.get("files", ())]
            assert names == ["history.png", "queued.png", "draft.png"]
            kept = list((place.home / "uploads" / "blobs").glob("*/*"))
            assert len(kept) == 3
            await client.call("session.delete", session_id=session)
            assert not list((place.home / "uploads" / "blobs").glob("*/*"))


async def _texts(client, session) -> list[str]:
    found = await client.call("session.history", session_id=session)
    return [message["text"] for message in found["messages"]]
