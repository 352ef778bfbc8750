"""Case 35: what was accepted and queued runs after any stop, once, in order."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing

import pytest

from support.commands import Place
from support.restarts import Restarts
from support.served import serving, wait_for
from tenure.models.script import Script
from tenure.sessions.recovery import GO_ON
from tenure.testing.waiting import until

TEXTS = [f"p{n}" for n in range(1, 10)]


@pytest.mark.parametrize("how", ["term", "kill9"])
async def test_nine_queued_prompts_run_after_the_next_start(tmp_path, how):
    restarts = Restarts(tmp_path)
    script = Script([{"gate": "never"}, {"text": "x"}])
    async with restarts.boot(script) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session()
        await client.call("prompt.submit", session_id=session, text="p0")
        for text in TEXTS:
            receipt = await client.call("prompt.submit", session_id=session, text=text)
            assert receipt["status"] == "queued"
        if how == "kill9":
            restarts.kill()
        else:
            await gateway.sessions.drain("gateway ended", 5.0)
            closed = await client.until("session.closed", session)
            assert (closed.payload["returned"], closed.payload["kept"]) == ([], 9)
    assert [state for *_, state, _ in restarts.turns()][1:] == ["queued"] * 9
    cause = "shutdown" if how == "term" else "crash"

    second = Script([{"text": "y"}], loop=True)
    async with restarts.boot(second) as gateway:
        live = gateway.sessions.get(session)
        await until(lambda: live.current is None and not live.queued)
    asked = [request.messages[-1].text for request in second.requests]
    assert asked == [GO_ON, *TEXTS]
    assert restarts.turns() == [
        ("p0", "interrupted", cause), (GO_ON, "completed", "stop"),
        *((text, "completed", "stop") for text in TEXTS),
    ]  # fmt: skip

    third = Script([{"text": "z"}], loop=True)
    async with restarts.boot(third):
        assert third.requests == [], "once"


async def test_a_close_returns_what_is_queued_and_nothing_of_it_runs_later(tmp_path):
    restarts = Restarts(tmp_path)
    async with restarts.boot(Script([{"gate": "never"}])) as gateway:
        client, _ = await gateway.client()
        session = await client.ready_session()
        for text in ("one", "two"):
            await client.call("prompt.submit", session_id=session, text=text)
        await client.call("session.close", session_id=session)
        closed = await client.until("session.closed", session)
        assert (closed.payload["returned"], closed.payload["kept"]) == (["two"], 0)
    again = Script([{"text": "never"}])
    async with restarts.boot(again) as gateway:
        assert gateway.sessions.live() == [] and again.requests == []
    assert restarts.turns() == [("one", "interrupted", "client"), ("two", "refused", "client")]


async def test_those_of_every_profile_run(tmp_path):
    place = Place(tmp_path)
    ref = place.script([{"gate": "never"}])
    with serving(place, "--model", ref) as served:
        async with served.client() as client:
            await client.call("profile.create", name="other")
            session = await client.ready_session(profile="other")
            await client.call("prompt.submit", session_id=session, text="one")
            await client.call("prompt.submit", session_id=session, text="two")
        os.kill(served.pid, signal.SIGKILL)
        served.process.wait(30)
    ref = place.script({"text": "done"}, name="next.json", loop=True)
    with serving(place, "--model", ref) as served:
        uri = f"file:{place.home / 'profiles' / 'other' / 'tenure.db'}?mode=ro"
        query = "SELECT prompt, state FROM turns ORDER BY ordinal, attempts"
        over = [("one", "interrupted"), (GO_ON, "completed"), ("two", "completed")]
        with closing(sqlite3.connect(uri, uri=True)) as db:
            wait_for(lambda: db.execute(query).fetchall() == over, "its prompts have run")
        assert served.stop() == 0
