"""Many real sockets on one gateway, each coming and going as it likes, until it is killed or stopped.

What a device was told it has: every event after its cursor once and in order, or word of a gap.
What was acknowledged is in the database, once, with one end. `TENURE_CLIENT_ROUNDS` says how many
gateways live and die (3).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
from collections import Counter
from contextlib import closing, suppress

from simulation.devices import Device
from support.commands import Place
from support.served import Served, serving
from tenure.clock import SystemClock
from tenure.errors import TransportError
from tenure.testing.model_server import Answer, ModelServer, Request, models, say
from tenure.transports.websocket_client import connect_websocket

ROUNDS = int(os.environ.get("TENURE_CLIENT_ROUNDS", "3"))
SEED = int(os.environ.get("TENURE_CLIENT_SEED", "20261129"))
DEVICES = 24
SESSIONS = 5
ROUND_S = 3.0
UNSETTLED = "SELECT 1 FROM turns WHERE state IN ('queued', 'running') OR marked_at > 0"
ENDED = {"completed", "interrupted", "failed", "refused"}


class Talker(ModelServer):
    """Answers everything."""

    def take(self, request: Request) -> Answer:
        return models("m") if request.path.endswith("/models") else say("word " * 30)


class RealDevice(Device):
    """A device on a real socket."""

    served: Served

    async def dial(self) -> None:
        with suppress(TransportError, OSError):
            self._speak(await connect_websocket(self.served.url, self.served.token), SystemClock())

    async def wander(self, known: list[str]) -> None:
        """Whatever a person may do, as long as there is a gateway."""
        while True:
            await self.live(known, dict.fromkeys(known, ""))
            choice, sid = self.rnd.random(), self.rnd.choice(known)
            if choice < 0.06:
                await self.call("session.interrupt", session_id=sid)
            elif choice < 0.12:
                await self.call("session.undo", session_id=sid, turns=self.rnd.choice([1, 2]))
            elif choice < 0.15:
                await self.call("session.close", session_id=sid)
            elif choice < 0.18 and (turns := [t for (s, _), t in self.acked.items() if s == sid]):
                turn_id = self.rnd.choice(turns)
                await self.call("prompt.edit", session_id=sid, turn_id=turn_id, text="anew")
            await asyncio.sleep(self.rnd.uniform(0, 0.03))


def rows(place: Place, query: str) -> list[tuple]:
    uri = f"file:{place.home / 'tenure.db'}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as db:
        return db.execute(query).fetchall()


async def a_round(place: Place, devices: list[RealDevice], known: list[str], how: int) -> None:
    """One gateway from its start to its end, in the middle of everything."""
    with serving(place, "--model", "box:m") as served:
        for device in devices:
            device.served = served
        async with served.client() as client:
            while len(known) < SESSIONS:
                known.append((await client.call("session.create"))["session_id"])
        people = [asyncio.create_task(device.wander(known)) for device in devices]
        await asyncio.sleep(ROUND_S)
        os.kill(served.pid, how)
        await asyncio.to_thread(served.process.wait, 30)
        for person in people:
            person.cancel()
        await asyncio.wait(people)
        for person in people:
            assert person.cancelled(), person.exception()
        for device in devices:
            await device.vanish()


async def test_clients_that_come_and_go(tmp_path):
    rnd, known, log = random.Random(SEED), [], []
    async with Talker() as model:
        place = Place(tmp_path)
        place.config(f'[providers.box]\nbase_url = "{model.base_url}"\ncontext_tokens = 100000\n')
        devices = [
            RealDevice(None, random.Random(rnd.random()), f"d{n}", log) for n in range(DEVICES)
        ]
        for number in range(ROUNDS):
            how = signal.SIGTERM if number % 2 else signal.SIGKILL
            await a_round(place, devices, known, how)
            broken = [what for device in devices for what in device.broken]
            assert not broken, (number, broken)
        with serving(place, "--model", "box:m") as served:
            async with asyncio.timeout(60):
                # What a kill has cut off is marked until its session is taken up and tells its end.
                while rows(place, UNSETTLED):
                    await asyncio.sleep(0.05)
            assert await asyncio.to_thread(served.stop) == 0
    check(place, devices)


def check(place: Place, devices: list[RealDevice]) -> None:
    turns = rows(place, "SELECT id, session_id, key, state FROM turns")
    causes = rows(place, "SELECT id, state, cause, error FROM turns")
    assert {state for *_, state in turns} <= ENDED
    assert not rows(place, "SELECT 1 FROM sessions WHERE status = 'open'")
    keys = {(session, key): turn for turn, session, key, _ in turns if key}
    acked = {at: turn for device in devices for at, turn in device.acked.items()}
    assert len(acked) > DEVICES, "much was acknowledged"
    assert {at: keys.get(at) for at in acked} == acked, "and all of it is there"
    told = rows(
        place,
        "SELECT CAST(payload AS TEXT) FROM events "
        "WHERE type IN ('message.complete', 'message.steered')",
    )
    ends = Counter(json.loads(payload)["turn_id"] for (payload,) in told)
    assert [(ends[turn], turn, *how) for turn, *how in causes if ends[turn] != 1] == []
    stored = {
        (session, epoch, seq): kind
        for session, epoch, seq, kind in rows(
            place, "SELECT session_id, epoch, seq, type FROM events"
        )
    }
    for device in devices:
        for (session, epoch), applied in device.applied.items():
            for seq, kind in applied:
                assert stored[session, epoch, seq] == kind
