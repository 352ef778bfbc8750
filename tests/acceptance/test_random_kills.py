"""SIGKILL at random moments under load: nothing acknowledged is lost, and nothing happens twice.

A real gateway with its guard, a model that calls a tool for each prompt, a tool whose effect is a
line in a file. At each moment the gateway, its guard or both are killed, some of them while they
start; the next one takes up what is left while new prompts come in. `TENURE_KILLS` says how many
moments (20; the whole 100 take two minutes).
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

import pytest

from support.commands import Place
from support.served import Served, load, pids_with, promised, serving
from tenure.errors import TenureError
from tenure.processes.procfs import all_stats, identity_of, is_alive
from tenure.sessions.recovery import GO_ON
from tenure.testing.model_server import Answer, ModelServer, Request, call, models, say

MOMENTS = int(os.environ.get("TENURE_KILLS", "20"))
SEED = int(os.environ.get("TENURE_KILLS_SEED", "20261129"))
SESSIONS = 3
ROUNDS_A_SESSION = 5
GONE_S = 5.0


class Worker(ModelServer):
    """A model that does what a prompt asks ("do 17"), once, and checks before it repeats."""

    def take(self, request: Request) -> Answer:
        if request.path.endswith("/models"):
            return models("m")
        messages = request.body["messages"]
        last = messages[-1]
        if last["role"] == "tool":
            return say("done")
        wanted = next(m for m in reversed(messages) if str(m["content"]).startswith("do "))
        number = wanted["content"].split()[1]
        if last["content"] == GO_ON and any(asks(m, number) for m in messages):
            return say("I cannot know whether it was done, so I leave it.")
        command = {"command": f"echo {number} >> effects"}
        return call("shell", command, call_id=f"call_{number}_{len(messages)}")


def asks(message: dict, number: str) -> bool:
    return any(
        json.loads(c["function"]["arguments"])["command"].startswith(f"echo {number} ")
        for c in message.get("tool_calls") or ()
    )


class Run:
    """What happened so far, over all gateways."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.random = random.Random(SEED)
        self.number = 0
        self.acknowledged: list[tuple[str, str]] = []
        self.sessions: list[str] = []
        self.rounds = 0

    async def load(self, served: Served) -> None:
        """Prompts for every session, as fast as they are taken, until the gateway is gone."""
        async with served.client() as client:
            if self.rounds % ROUNDS_A_SESSION == 0 or not self.sessions:
                made = [await client.call("session.create") for _ in range(SESSIONS)]
                self.sessions = [one["session_id"] for one in made]
            else:
                for session in self.sessions:
                    await client.call("session.resume", session_id=session)
            self.rounds += 1
            async with asyncio.TaskGroup() as group:
                for session in self.sessions:
                    group.create_task(self._feed(client, session))

    async def _feed(self, client, session: str) -> None:
        while True:
            self.number += 1
            text = f"do {self.number} please"
            try:
                await client.call("prompt.submit", session_id=session, text=text)
                self.acknowledged.append((session, text))
            except TenureError as exc:
                if not exc.retryable:
                    raise
            await asyncio.sleep(self.random.uniform(0.0, 0.15) * slowness())

    def effects(self) -> Counter[int]:
        path = self.place.work / "effects"
        return Counter(map(int, path.read_text().split())) if path.exists() else Counter()

    def rows(self, query: str) -> list[tuple]:
        uri = f"file:{self.place.home / 'tenure.db'}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as db:
            return db.execute(query).fetchall()


def slowness() -> float:
    """Where the machine has much else to do, everything takes longer, so that as much is done."""
    return max(1.0, load() / 2)


def below(pid: int) -> list[int]:
    return [stat.pid for stat in all_stats() if stat.ppid == pid]


def kill(who: str, guard: int, gateway: int) -> None:
    """SIGKILL, the real thing."""
    both = [guard, gateway]
    for pid in both if who == "both" else []:
        os.kill(pid, signal.SIGSTOP)  # so that neither sees the other's end
    for pid in {"gateway": [gateway], "guard": [guard]}.get(who, both):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def kill_at_work(run: Run, who: str, delay_s: float) -> None:
    with serving(run.place, "--model", "box:m") as served:
        identities = [identity_of(served.guard_pid), identity_of(served.pid)]
        at_work = asyncio.create_task(run.load(served))
        await asyncio.sleep(delay_s * slowness())
        kill(who, served.guard_pid, served.pid)
        await asyncio.wait({at_work})
        assert isinstance(at_work.exception(), BaseException), "it was cut off"
        await asyncio.to_thread(served.process.wait, 30)
        await all_gone(run.place, identities, swept=who != "both")


async def kill_at_start(run: Run, who: str, delay_s: float) -> None:
    """The same while the gateway starts; the moment may be before there is one."""
    process = run.place.popen("serve", "--port", "0", "--json", "--model", "box:m")
    await asyncio.sleep(delay_s)
    gateway = next(iter(below(process.pid)), process.pid)
    identities = [identity_of(process.pid), identity_of(gateway)]
    kill(who, process.pid, gateway)
    await asyncio.to_thread(process.communicate, timeout=30)
    await all_gone(run.place, identities, swept=who != "both")


async def all_gone(place: Place, identities, *, swept: bool) -> None:
    def look() -> bool:
        alive = any(one is not None and is_alive(one) for one in identities)
        return not alive and not (swept and pids_with(str(place.home)))

    await asyncio.to_thread(promised, look, "everything is gone", GONE_S)


@pytest.mark.timeout(60 * MOMENTS)
async def test_kills_at_random_moments(tmp_path):
    async with Worker() as model:
        run = Run(Place(tmp_path))
        run.place.config(
            f'[providers.box]\nbase_url = "{model.base_url}"\ncontext_tokens = 1000000\n'
            '[[approvals.rules]]\ndecision = "allow"\ntool = "shell"\n'
        )
        for _ in range(MOMENTS):
            who = run.random.choices(["gateway", "guard", "both"], [6, 2, 2])[0]
            if run.random.random() < 0.15:
                await kill_at_start(run, who, run.random.uniform(0.05, 0.5))
            else:
                await kill_at_work(run, who, run.random.uniform(0.1, 1.2))
            assert not [n for n, count in run.effects().items() if count > 1]
        await come_to_rest(run)
    check_the_end(run)


async def come_to_rest(run: Run) -> None:
    """One more gateway, until everything is over, and a graceful end."""
    with serving(run.place, "--model", "box:m") as served:
        async with served.client() as client:
            await client.call("session.list")  # it has the store, and ended what was left in it
        open_rows = "SELECT 1 FROM turns WHERE state IN ('queued', 'running') OR marked_at > 0"
        async with asyncio.timeout(180):
            while run.rows(open_rows):
                await asyncio.sleep(0.05)
        assert await asyncio.to_thread(served.stop) == 0
    assert not pids_with(str(run.place.home))


def check_the_end(run: Run) -> None:
    ended = ("completed", "interrupted", "failed", "refused")
    turns = run.rows("SELECT session_id, prompt, state, cause, id, continues FROM turns")
    assert {state for _, _, state, *_ in turns} <= set(ended), "no row is open"
    stored = Counter((session, prompt) for session, prompt, *_ in turns if prompt != GO_ON)
    lost = [one for one in run.acknowledged if stored[one] != 1]
    assert not lost, "every acknowledged prompt is there, once"
    assert not run.rows("SELECT 1 FROM sessions WHERE status = 'open'")
    assert not run.rows("SELECT 1 FROM approvals WHERE decision = ''")
    assert not run.rows("SELECT 1 FROM home WHERE holder != ''")

    told = run.rows(
        "SELECT json_extract(CAST(payload AS TEXT), '$.turn_id') FROM events "
        "WHERE type = 'message.complete'"
    )
    ends = Counter(turn_id for (turn_id,) in told)
    odd = [(ends[turn[4]], *turn) for turn in turns if ends[turn[4]] != 1]
    assert not odd, "each turn has one visible end"

    gone_on = {continues for *_, continues in turns}
    dropped = [
        turn
        for turn in turns
        if turn[2] in ("refused", "failed") or (turn[2] == "interrupted" and turn[4] not in gone_on)
    ]
    notices = run.rows(
        "SELECT session_id FROM events WHERE type = 'session.notice' "
        "AND CAST(payload AS TEXT) LIKE '%Quarantined%'"
    )
    told_of = {session for (session,) in notices}
    silent = [turn for turn in dropped if turn[0] not in told_of]
    assert not silent, "each was taken up"

    effects = run.effects()
    assert max(effects.values(), default=0) <= 1, "no effect is doubled"
    completed = {
        int(p.split()[1]) for _, p, state, *_ in turns if state == "completed" and p != GO_ON
    }
    assert completed and not [n for n in completed if effects[n] != 1]
    # Never more than three attempts at one piece of work.
    assert run.rows("SELECT max(attempts) FROM turns")[0][0] <= 3
    print(f"{len(run.acknowledged)} prompts, {len(effects)} effects, {MOMENTS} kills")
