"""Random clients, a random store, a random model; whatever happens, what is owned is given back.

Every seed is one run. A failing run prints its seed and what it did; put the seed into `FIXED`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from tenure.agent.context import repair
from tenure.config import ApprovalsConfig, Config, LimitsConfig
from tenure.errors import ModelError, StoreError, StoreFull, TenureError
from tenure.lifecycle.threads import call_in_thread
from tenure.models.script import Script
from tenure.store import base as b
from tenure.testing.clock import ManualClock, settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import TestClient, TestGateway, open_test_gateway
from tenure.testing.store import MemoryStore
from tenure.testing.tools import scripted_tool
from tenure.tools.base import Effect
from tenure.transports.base import TransportClosed

FIXED = (1, 2, 3, 5, 8, 13, 21, 34)
FRESH = 4
STEPS = 120
PATIENCE_S = 20
FINAL = {"completed", "interrupted", "failed", "refused"}


def random_step(rnd: random.Random) -> Any:
    """One answer of the model: text, calls, a gate, an error, or several of them."""
    kinds: list[list[dict[str, Any]]] = [
        [{"text": "Plain words."}],
        [
            {"reasoning": "hm"},
            {"text": "Part "},
            {"gate": f"g{rnd.randrange(3)}"},
            {"text": "rest"},
        ],
        [{"call": {"name": "probe", "arguments": {"text": "a"}}}],
        [
            {"text": "Both."},
            {"call": {"name": "act", "arguments": {"text": "b"}}},
            {"call": {"name": "probe", "arguments": {"text": "c", "fail": True}}},
        ],
        [{"text": "Slow"}, {"delay_s": 2.0}, {"text": " end"}],
        [{"text": "Broken"}, {"error": {"kind": "garbage", "message": "nonsense"}}],
        [{"call": {"name": "deaf", "arguments": {"text": "d"}}}],
        [{"call": {"name": "act", "arguments": "no json"}}],
    ]
    return rnd.choices(kinds, [6, 4, 4, 4, 2, 1, 1, 1])[0]


class FaultyStore(MemoryStore):
    """Slow when gated; sometimes a write fails."""

    def __init__(self) -> None:
        super().__init__()
        self.busy: Gate | None = None
        self.failed = 0

    def block(self) -> None:
        self.busy = self._gate = Gate()

    def unblock(self) -> None:
        if self.busy is not None:
            self.busy.release()
        self.busy = self._gate = None

    def fail_soon(self, after: int) -> None:
        self.fail(StoreFull("No space is left."), after=after)
        self.failed += 1


class Fenced(logging.Handler):
    """Counts the turns that were fenced off: their histories are mended when they are read."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "fenced off" in record.getMessage():
            self.records.append(record.getMessage())


@dataclass
class World:
    """One run: the gateway, its clients, and everything that was accepted."""

    gw: TestGateway
    rnd: random.Random
    clock: ManualClock
    store: FaultyStore
    deaf: Gate
    fenced: Fenced = field(default_factory=Fenced)
    clients: list[tuple[TestClient, Any]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    accepted: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    calls: list[asyncio.Task[None]] = field(default_factory=list)
    heard: dict[tuple[str, int], list[Any]] = field(default_factory=lambda: defaultdict(list))
    opened: list[Any] = field(default_factory=list)

    # --- acting -------------------------------------------------------------------------------

    async def act(self) -> None:
        actions = {
            self.connect: 3, self.leave: 2, self.create: 6, self.resume: 6, self.activate: 3,
            self.submit: 20, self.interrupt: 6, self.close: 3, self.delete: 1, self.title: 2,
            self.switch: 3, self.answer: 10, self.advance: 6, self.block: 3, self.unblock: 5,
            self.fail_store: 2, self.break_build: 1, self.mend_build: 2, self.open_gate: 6,
            self.pause: 12,
        }  # fmt: skip
        (action,) = self.rnd.choices(list(actions), list(actions.values()))
        await action()

    async def connect(self) -> None:
        if len(self.clients) < 4:
            client, scope = await self.gw.client()
            self.clients.append((client, scope))
            self.calls.append(asyncio.create_task(self.hear(client)))
            self.log.append("connect")

    async def hear(self, client: TestClient) -> None:
        """Keep every durable event that any client is told."""
        try:
            while True:
                event = await client.next_event()
                if event.seq:
                    self.heard[event.session_id, event.epoch].append(event)
        except TransportClosed:
            return

    async def leave(self) -> None:
        if len(self.clients) > 1:
            _, scope = self.clients.pop(self.rnd.randrange(len(self.clients)))
            self.log.append("leave")
            self.calls.append(asyncio.create_task(_close(scope)))

    def call(self, method: str, **params: Any) -> None:
        """Call without waiting: requests of all clients overlap."""
        client, _ = self.rnd.choice(self.clients)
        self.log.append(f"{method} {params}")
        self.calls.append(asyncio.create_task(self._call(client, method, params)))

    async def _call(self, client: TestClient, method: str, params: dict[str, Any]) -> None:
        try:
            result = await client.call(method, **params)
        except TenureError as exc:
            self.log.append(f"  {method}: {type(exc).__name__} {exc}")
            assert type(exc).__name__ != "InternalError", exc
            return
        if method == "session.create":
            self.known.append(result["session_id"])
        elif method == "prompt.submit":
            self.accepted[params["session_id"]].append(result["turn_id"])

    async def create(self) -> None:
        if len(self.known) < 6:
            self.call("session.create", close_on_disconnect=self.rnd.random() < 0.4)

    def on(self, method: str, **params: Any) -> None:
        if self.known:
            self.call(method, session_id=self.rnd.choice(self.known), **params)

    async def resume(self) -> None:
        self.on("session.resume", close_on_disconnect=self.rnd.random() < 0.3)

    async def activate(self) -> None:
        self.on("session.activate")

    async def submit(self) -> None:
        self.on("prompt.submit", text=f"prompt {len(self.log)}")

    async def interrupt(self) -> None:
        self.on("session.interrupt")

    async def close(self) -> None:
        self.on("session.close")

    async def delete(self) -> None:
        self.on("session.delete")

    async def title(self) -> None:
        self.on("session.title", title=f"t{self.rnd.randrange(3)}")

    async def switch(self) -> None:
        self.on("config.set", key="model", value=f"scripted:m{self.rnd.randrange(3)}")

    async def answer(self) -> None:
        choice = self.rnd.choice(["once", "deny", "session", "once"])
        self.on("approval.respond", choice=choice, all=self.rnd.random() < 0.2)

    async def advance(self) -> None:
        seconds = self.rnd.choice([0.5, 2.5, 6.0, 31.0])
        self.log.append(f"advance {seconds}")
        self.clock.advance(seconds)

    async def block(self) -> None:
        self.log.append("block")
        if self.store.busy is None:
            self.store.block()

    async def unblock(self) -> None:
        self.log.append("unblock")
        self.store.unblock()

    async def fail_store(self) -> None:
        self.log.append("fail")
        self.store.fail_soon(self.rnd.randrange(6))

    async def break_build(self) -> None:
        step = self.rnd.choice(self.gw.picker.STEPS)
        self.log.append(f"break {step}")
        if self.rnd.random() < 0.5:
            self.gw.picker.failures[step] = ModelError("No key.", provider="scripted")
        elif step not in self.gw.picker.gates:
            self.gw.picker.gates[step] = Gate()

    async def mend_build(self) -> None:
        self.log.append("mend")
        self.gw.picker.failures.clear()
        for gate in self.gw.picker.gates.values():
            gate.release()
        self.gw.picker.gates.clear()

    async def open_gate(self) -> None:
        gate = self.gw.picker.script.gate(f"g{self.rnd.randrange(3)}")
        self.log.append(f"open {gate.name}")
        gate.open()
        await asyncio.sleep(0)
        gate.shut()

    async def pause(self) -> None:
        await settle(self.rnd.randrange(30))

    # --- the end ------------------------------------------------------------------------------

    async def calm(self) -> None:
        """Let everything that was begun come to its end."""
        await self.mend_build()
        self.store.unblock()
        self.deaf.release()
        for _ in range(40):
            for n in range(3):
                self.gw.picker.script.gate(f"g{n}").open()
            await settle(30)
            for session in self.gw.sessions.live():
                while session.scope.admits and session.questions.shown:
                    with suppress(StoreError):
                        await session.questions.respond("", "deny", everything=True)
                    await settle(5)
            self.clock.advance(31.0)
            await settle(30)
            await _threads()
            if self.is_calm():
                await settle(30)
                return
        pytest.fail(f"it does not come to rest: {self.gw.census()}")

    def is_calm(self) -> bool:
        return not any(
            s.current or s.queued or s.closing or s.endings._unsaved or s.status == "starting"
            for s in self.gw.sessions.live()
        )


async def _close(scope: Any) -> None:
    await scope.close()


async def _threads() -> None:
    """Builds read files in threads, which take their own time."""
    async with asyncio.timeout(5):
        for _ in range(3):
            await call_in_thread(int)


# --- what must hold ---------------------------------------------------------------------------


async def check_at_rest(world: World) -> None:
    """Nothing runs: one place for everything that lives, none for what has ended."""
    gw, store = world.gw, world.store
    live = {s.id: s for s in gw.sessions.live()}
    assert not gw.sessions._opening
    owners = Counter(e.owner for e in gw.root.census() if "/session:" in e.owner)
    for owner, count in owners.items():
        sid = owner.partition("session:")[2].partition("/")[0]
        assert sid in live, f"held for a session that is over: {owner}"
        assert "turn:" not in owner, f"{count} held for a turn that is over: {owner}"
    kinds = Counter(e.kind for e in gw.root.census() if "/sessions" in e.owner)
    assert not kinds.get("task"), [e for e in gw.root.census() if e.kind == "task"]
    built = [s for s in live.values() if s.agent is not None]
    assert sorted(gw.picker.opened) == sorted(gw.picker.STEPS * len(built))
    bound = [(e.label, e.owner) for e in gw.root.census() if e.kind == "attachment"]
    assert sorted(label for label, _ in bound) == sorted(
        s.id for s in live.values() for _ in range(len(s.attachments))
    )
    assert gw.picker.script.open_streams == 0
    for session in live.values():
        assert session.status == "idle" and session.questions.shown is None
    for row in store._rows.sessions.values():
        if row["id"] in live or not store.failed:  # else the next start ends the row
            assert (row["status"] == "open") == (row["id"] in live), row


async def check_rows(world: World) -> None:
    """Every prompt ended once; what was told was stored; histories are valid."""
    rows = world.store._rows
    # Where the very last write of a session failed, the next opening ends its rows.
    torn = {sid for sid, row in rows.sessions.items() if row["status"] == "open"}
    torn -= {s.id for s in world.gw.sessions.live()} if world.store.failed else torn
    for row in rows.turns.values():
        assert row["session_id"] in torn or (row["state"] in FINAL and row["ended_at"]), row
    for row in rows.approvals.values():
        assert row["session_id"] in torn or row["decision"], row
    ends: Counter[str] = Counter()
    for (sid, epoch), seqs in _by(rows.events).items():
        assert seqs == list(range(1, len(seqs) + 1)), (sid, epoch, seqs)
    for event in rows.events.values():
        if event.type == "message.complete":
            ends[msgspec.json.decode(event.payload)["turn_id"]] += 1
    for sid, turn_ids in world.accepted.items():
        if sid in deleted(world):
            continue
        stored = [t.id for t in await world.store.turns(sid)]
        assert set(turn_ids) <= set(stored), "an accepted prompt is not stored"
        for turn_id in turn_ids:
            wanted = {1} if not world.store.failed else {0, 1}
            assert ends[turn_id] in wanted, (turn_id, ends[turn_id])
    assert set(ends) <= set(rows.turns) and max(ends.values(), default=0) <= 1
    for request in world.gw.picker.script.requests:
        assert repair(request.messages) == request.messages
    for sid in rows.sessions:
        check_order(await world.store.turns(sid))
        history = [item.message for item in await world.store.history(sid)]
        slow = any(row["cause"] == "store" for row in rows.turns.values())
        if not world.store.failed and not world.fenced.records and not slow:
            assert repair(history) == tuple(history), f"{sid} needs repair: {history}"


def deleted(world: World) -> set[str]:
    """Also by somebody who did not wait for the answer."""
    ops = (op for write in world.store.writes for op in write)
    return {op.id for op in ops if isinstance(op, b.DeleteSession)}


def _by(events: dict[tuple[str, int, int], Any]) -> dict[tuple[str, int], list[int]]:
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for sid, epoch, seq in sorted(events):
        found[sid, epoch].append(seq)
    return found


def check_order(turns: list[b.TurnRow]) -> None:
    """What ran, ran in the order in which it was accepted."""
    started = [t.started_at for t in turns if t.started_at]
    assert started == sorted(started), turns
    assert [t.ordinal for t in turns] == sorted(t.ordinal for t in turns)


def check_heard(world: World) -> None:
    """What any client was told in order is stored under that number."""
    for (sid, epoch), events in world.heard.items():
        if sid in deleted(world):
            continue
        for event in events:
            row = world.store._rows.events[sid, epoch, event.seq]
            assert row.type == event.type


# --- running ----------------------------------------------------------------------------------


async def run(tmp_path: Any, seed: int) -> None:
    rnd = random.Random(seed)
    clock, store, deaf = ManualClock(), FaultyStore(), Gate()
    script = Script([random_step(rnd) for _ in range(12)], loop=True)
    tools = (
        scripted_tool("probe"),
        scripted_tool("act", effect=Effect.WRITE),
        scripted_tool("deaf", gate=deaf, deaf=True),
    )
    config = Config(
        limits=LimitsConfig(queue_max=3, steps_max=4, sessions_max=5),
        approvals=ApprovalsConfig(timeout_s=60.0),
    )
    async with open_test_gateway(
        tmp_path, script, clock=clock, store=store, config=config, tools=lambda _c, _s: tools
    ) as gw:
        world = World(gw, rnd, clock, store, deaf)
        logging.getLogger("tenure.sessions").addHandler(world.fenced)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await live(world)
        except BaseException:
            print(f"seed {seed}:", *world.log, sep="\n  ")
            raise
        finally:
            logging.getLogger("tenure.sessions").removeHandler(world.fenced)
            await mend(world)


async def live(world: World) -> None:
    """The whole run, from the first client to the last row."""
    await world.connect()
    for _ in range(STEPS):
        await world.act()
        running = [s for s in world.gw.sessions.live() if s.current is not None]
        assert all(s.state.value == "working" for s in running)
    await world.calm()
    await check_at_rest(world)
    await check_rows(world)
    check_heard(world)
    await end(world)


async def end(world: World) -> None:
    """A drain in the middle of new work: nothing is left, every row has its end."""
    gw = world.gw
    for _ in range(20):
        await world.submit()
    await settle(world.rnd.randrange(20))
    drained = asyncio.create_task(gw.sessions.drain("the end", 12.0))
    for _ in range(20):
        await settle(20)
        await _threads()
        world.clock.advance(0.5)
        for n in range(3):
            gw.picker.script.gate(f"g{n}").open()
    await drained
    for _, scope in world.clients:
        await scope.close()
    await settle(60)
    assert gw.sessions.live() == [] and gw.picker.opened == []
    assert [e for e in gw.root.census() if e.kind != "store"] == []
    await check_rows(world)
    if not world.store.failed:
        assert {row["status"] for row in world.store._rows.sessions.values()} <= {"closed"}


async def mend(world: World) -> None:
    """So that the gateway can end, however the run went."""
    await world.mend_build()
    world.store.unblock()
    world.deaf.release()
    for _, scope in world.clients:
        await scope.close()
    if world.calls:
        await asyncio.wait(world.calls, timeout=5)
    for call in world.calls:
        if call.done() and not call.cancelled() and (error := call.exception()) is not None:
            raise error
        call.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("seed", FIXED)
async def test_known_seeds(tmp_path, seed):
    await run(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(FRESH))
async def test_fresh_seeds(tmp_path, number):
    await run(tmp_path, int.from_bytes(os.urandom(4), "big"))
