"""Case 5: the hook at the end of a session runs once for each end, with the whole transcript."""

from __future__ import annotations

import asyncio
import json
import logging
import sys

import pytest

from support.restarts import Restarts
from tenure.config import Config, LimitsConfig
from tenure.models.script import Script
from tenure.settings import HooksConfig
from tenure.testing.gates import Gate
from tenure.testing.waiting import until

COPY = "import sys, pathlib; t = sys.stdin.read(); open(sys.argv[1], 'a').write(t + chr(10))"


class Hooked(Restarts):
    """Gateways whose hook writes what it is told into a file."""

    def __init__(self, folder, code: str = COPY, **limits) -> None:
        super().__init__(folder)
        self.file = folder / "told"
        (folder / "home").mkdir()
        hooks = HooksConfig((sys.executable, "-c", code, str(self.file)))
        self.config = Config(hooks=hooks, limits=LimitsConfig(**limits))

    def booted(self, script=None, **more):
        script = script or Script([{"text": "An answer."}], loop=True)
        return self.boot(script, config=self.config, hook=True, **more)

    def told(self) -> list[dict]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [json.loads(line) for line in lines]

    def stored(self, session: str) -> int:
        return self.rows("SELECT count(*) FROM items WHERE session_id = ?", session)[0][0]


async def talk(gateway, **params):
    """A session with two turns; its client, what ends the client, and its id."""
    client, wire = await gateway.client()
    session = await client.ready_session(title="The walk", **params)
    for n in range(2):
        await client.call("prompt.submit", session_id=session, text=f"prompt {n}")
        await client.until("message.complete", session)
    return client, wire, session


async def evict(gateway, session: str, how: str) -> None:
    """Unload a session as `how` does; nobody is attached then, and it is no end."""
    if how == "idle":
        gateway.sessions.get(session).pins = 0
        gateway.sessions.ports.clock.advance(10_000.0)
        gateway.sessions.reaper.look()
    else:
        gateway.sessions.reaper.relieve(room=1)
    await until(lambda: gateway.sessions.find(session) is None)
    await until(lambda: not gateway.sessions.hooks.busy)


@pytest.mark.parametrize("evicted", ["", "idle", "room"])
@pytest.mark.parametrize("exit_by", ["close", "disconnect", "stop", "kill", "delete"])
async def test_once_for_each_way_out(tmp_path, exit_by, evicted):
    hooked = Hooked(tmp_path, loaded_max=1)
    async with hooked.booted() as gateway:
        client, wire, session = await talk(gateway)
        if evicted:
            await client.call("session.detach", session_id=session)
            await evict(gateway, session, evicted)
            assert hooked.told() == [], "it can go on, so it has not ended"
            flag = exit_by == "disconnect"
            await client.call("session.resume", session_id=session, close_on_disconnect=flag)
        elif exit_by == "disconnect":
            await client.call("session.resume", session_id=session, close_on_disconnect=True)
        stored = hooked.stored(session)
        if exit_by == "close":
            await client.call("session.close", session_id=session)
        elif exit_by == "disconnect":
            await wire.close()
        elif exit_by == "delete":
            await client.call("session.delete", session_id=session)
        elif exit_by == "kill":
            hooked.kill()
            hooked.file.rename(tmp_path / "of the dead") if hooked.file.exists() else None
        if exit_by not in ("stop", "kill"):
            await until(hooked.told)
    if exit_by == "kill":
        hooked.file.unlink(missing_ok=True)  # the other gateway went on; this one was killed before
    for _ in range(2):  # and never again
        async with hooked.booted() as gateway:
            await until(hooked.told)
            await until(lambda: not gateway.sessions.hooks.busy)
    (told,) = hooked.told()
    assert len(told["messages"]) == stored == 4
    assert [m["text"] for m in told["messages"]][::2] == ["prompt 0", "prompt 1"]
    assert (told["session_id"], told["profile"], told["title"]) == (session, "default", "The walk")
    assert told["started_at"] <= told["ended_at"] and told["cwd"] == str(tmp_path)
    reasons = {
        "close": "closed by a client", "disconnect": "the client left", "stop": "test over",
        "kill": "crash", "delete": "deleted",
    }  # fmt: skip
    assert told["reason"] == reasons[exit_by]
    assert hooked.rows("SELECT * FROM ends") == []


@pytest.mark.parametrize("exit_by", ["close", "delete"])
@pytest.mark.parametrize("restart", [False, True])
async def test_one_that_stays_unloaded_ends_later(tmp_path, exit_by, restart):
    hooked = Hooked(tmp_path)
    async with hooked.booted() as gateway:
        client, _, session = await talk(gateway)
        await client.call("session.detach", session_id=session)
        await evict(gateway, session, "idle")
        if not restart:
            assert await client.call(f"session.{exit_by}", session_id=session)
            await until(hooked.told)
    if restart:
        assert hooked.told() == [], "a stop of the gateway is no end of what is unloaded"
        async with hooked.booted() as gateway:
            client, _ = await gateway.client()
            assert await client.call(f"session.{exit_by}", session_id=session)
            assert await client.call("session.close", session_id=session) == {"closed": False}
            await until(hooked.told)
    (told,) = hooked.told()
    assert len(told["messages"]) == 4


async def test_a_delete_waits_until_its_hook_has_read(tmp_path, monkeypatch):
    hooked = Hooked(tmp_path)
    async with hooked.booted() as gateway:
        client, _, session = await talk(gateway)
        await client.call("session.detach", session_id=session)
        await evict(gateway, session, "idle")
        gate, read, waits = Gate(), gateway.store.history, asyncio.Event()
        wait_started = gateway.sessions.hooks.wait_started

        async def slowly(session_id):
            await gate.park()
            return await read(session_id)

        async def waiting(*whose):
            waits.set()
            await wait_started(*whose)

        monkeypatch.setattr(gateway.store, "history", slowly)
        monkeypatch.setattr(gateway.sessions.hooks, "wait_started", waiting)
        deleting = asyncio.ensure_future(client.call("session.delete", session_id=session))
        await gate.wait_parked()
        await until(waits.is_set)
        assert await gateway.store.session(session) is not None
        gate.release()
        assert await deleting == {"deleted": session}
        await until(hooked.told)
    (told,) = hooked.told()
    assert len(told["messages"]) == 4


async def test_a_close_during_the_unloading_ends_it(tmp_path):
    hooked = Hooked(tmp_path)
    async with hooked.booted() as gateway:
        client, _, session = await talk(gateway)
        gateway.sessions.unload(gateway.sessions.get(session), "a test")
        assert await client.call("session.close", session_id=session) == {"closed": True}
        await until(hooked.told)
        assert (await gateway.store.session(session)).status == "closed"
    assert len(hooked.told()) == 1


async def test_a_second_end_is_told_again_with_more(tmp_path):
    hooked = Hooked(tmp_path)
    async with hooked.booted() as gateway:
        client, _, session = await talk(gateway)
        await client.call("session.close", session_id=session)
        await client.call("session.resume", session_id=session)
        await client.call("prompt.submit", session_id=session, text="prompt 2")
        await client.until("message.complete", session)
        await client.call("session.close", session_id=session)
        await until(lambda: len(hooked.told()) == 2)
    assert sorted(len(told["messages"]) for told in hooked.told()) == [4, 6]


async def test_one_that_was_cut_off_is_told_and_not_repeated(tmp_path, caplog):
    code = "import sys; open(sys.argv[1], 'a').write('{}\\n'); sys.stdout.flush(); input(); input()"
    hooked = Hooked(tmp_path, code + "; import time; time.sleep(1000)")
    async with hooked.booted() as gateway:
        client, _, session = await talk(gateway)
        await client.call("session.close", session_id=session)
        await until(lambda: hooked.rows("SELECT 1 FROM ends WHERE started_at > 0"))
        hooked.kill()
        await until(lambda: gateway.sessions.ports.clock.due_in(30.0), "its time is counted")
        gateway.sessions.ports.clock.advance(31.0)
        await until(lambda: not gateway.sessions.hooks.busy)
    hooked.file.unlink(missing_ok=True)
    with caplog.at_level(logging.WARNING):
        async with hooked.booted() as gateway:
            await until(lambda: not gateway.sessions.hooks.busy)
    assert hooked.told() == [] and hooked.rows("SELECT * FROM ends") == []
    assert f"The end hook of session {session} was cut off" in caplog.text


@pytest.mark.timeout(20)  # without its guard it would hang
async def test_it_is_bounded_in_time_and_its_output_is_not_kept(tmp_path, caplog):
    hooked = Hooked(tmp_path, "import time; print('canary', flush=True); time.sleep(1000)")
    with caplog.at_level(logging.INFO):
        async with hooked.booted() as gateway:
            client, _, session = await talk(gateway)
            await client.call("session.close", session_id=session)
            hooks = gateway.sessions.hooks
            await until(lambda: any("hook" in held for held in gateway.census("end hook")))
            while hooks.busy:
                gateway.sessions.ports.clock.advance(10.0)
                await asyncio.sleep(0.01)
    assert f"The end hook of session {session} was ended after 30 s" in caplog.text
    assert "canary" not in caplog.text


async def test_a_command_that_there_is_not_is_told_once(tmp_path, caplog):
    hooked = Hooked(tmp_path)
    hooks = HooksConfig(("no-such-program",))
    hooked.config = Config(hooks=hooks)
    with caplog.at_level(logging.INFO):
        async with hooked.booted() as gateway:
            client, _, session = await talk(gateway)
            await client.call("session.close", session_id=session)
            await until(lambda: not gateway.sessions.hooks.busy)
    assert f"The end hook of session {session} did not run: no-such-program" in caplog.text
    assert hooked.rows("SELECT * FROM ends") == []


async def test_without_a_command_nothing_is_stored(tmp_path):
    restarts = Restarts(tmp_path)
    async with restarts.boot(Script([{"text": "x"}], loop=True)) as gateway:
        client, _, session = await talk(gateway)
        await client.call("session.close", session_id=session)
        await until(lambda: gateway.sessions.find(session) is None)
        assert restarts.rows("SELECT * FROM ends") == [] and not gateway.sessions.hooks.busy
