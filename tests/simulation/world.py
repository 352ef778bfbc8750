"""Random clients, a random store, a random model: what happens in one run of the simulation."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from simulation.devices import Device
from tenure.errors import ModelError, StoreError, StoreFull, TenureError
from tenure.lifecycle.threads import call_in_thread
from tenure.sessions.actor import Session
from tenure.sessions.reaper import in_use
from tenure.testing.clock import ManualClock, settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import TestClient, TestGateway
from tenure.testing.store import MemoryStore
from tenure.testing.waiting import until
from tenure.transports.base import TransportClosed


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
    """Slow when gated; sometimes a write fails. Outlives whoever opens it."""

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
        told = record.getMessage()
        if "fenced off" in told or "could not be written" in told:
            self.records.append(record.getMessage())


@dataclass
class World:
    """One run: the gateway, its clients, and everything that was accepted."""

    gw: TestGateway
    rnd: random.Random
    clock: ManualClock
    stores: dict[str, FaultyStore]
    deaf: Gate
    faults: bool = True
    fenced: Fenced = field(default_factory=Fenced)
    clients: list[tuple[TestClient, Any]] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    profile_of: dict[str, str] = field(default_factory=dict)
    reordered: set[str] = field(default_factory=set)
    accepted: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    calls: list[asyncio.Task[None]] = field(default_factory=list)
    heard: dict[tuple[str, int], list[Any]] = field(default_factory=lambda: defaultdict(list))

    @property
    def failed(self) -> int:
        return sum(store.failed for store in self.stores.values())

    # --- acting -------------------------------------------------------------------------------

    async def act(self) -> None:
        actions = {
            self.connect: 3, self.leave: 2, self.create: 6, self.resume: 6, self.activate: 3,
            self.submit: 20, self.interrupt: 6, self.close: 3, self.delete: 1, self.title: 2,
            self.switch: 3, self.answer: 10, self.advance: 6, self.block: 3, self.unblock: 5,
            self.fail_store: 2, self.break_build: 1, self.mend_build: 2, self.open_gate: 6,
            self.pause: 12, self.device: 14, self.vanish: 3, self.queue: 5, self.steer: 4,
            self.undo: 4, self.edit: 3, self.branch: 2, self.compress: 2, self.unload: 2,
            self.rest: 3, self.look: 3, self.policy: 1, self.detach: 2, self.read: 3,
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
            self.profile_of[result["session_id"]] = params["profile"]
        elif method == "session.branch":
            self.known.append(result["session_id"])
            self.profile_of[result["session_id"]] = self.profile_of[params["session_id"]]
        elif method in {"prompt.submit", "prompt.edit", "session.steer"}:
            self.log.append(f"  accepted {result['turn_id']} {params}")
            self.accepted[params["session_id"]].add(result["turn_id"])
        elif method == "prompt.queue.remove":
            self.check_removed(params)

    def check_removed(self, params: dict[str, Any]) -> None:
        """Acknowledged is stored."""
        rows = self.stores[self.profile_of[params["session_id"]]]._rows.turns
        row = rows.get(params["turn_id"])
        assert row is None or row["state"] == "refused", f"removed, yet stored as {row['state']}"

    async def create(self) -> None:
        if len(self.known) < 8:
            profile = self.rnd.choice(list(self.stores))
            flag = self.rnd.random() < 0.4
            self.call("session.create", close_on_disconnect=flag, profile=profile)

    def on(self, method: str, **params: Any) -> str:
        sid = self.rnd.choice(self.known) if self.known else ""
        if sid:
            self.call(method, session_id=sid, **params)
        return sid

    async def resume(self) -> None:
        if self.known:
            sid = self.rnd.choice(self.known)
            self.call(
                "session.resume",
                session_id=sid,
                profile=self.rnd.choice(["", self.profile_of[sid], self.profile_of[sid]]),
                close_on_disconnect=self.rnd.random() < 0.3,
                lazy=self.rnd.random() < 0.4,
                eager_build=self.rnd.random() < 0.1,
                role=self.rnd.choice(["owner", "owner", "owner", "viewer"]),
            )

    async def activate(self) -> None:
        self.on("session.activate")

    async def detach(self) -> None:
        self.on("session.detach", attachment=self.rnd.choice([0, 0, 1, 2, 7]))

    async def read(self) -> None:
        method = self.rnd.choice(["session.events.since", "session.history", "prompt.queue.list"])
        more = {"profile": self.rnd.choice(list(self.stores))} if "history" in method else {}
        self.on(method, **more)

    async def submit(self) -> None:
        if not self.known:
            return
        sid, key = self.rnd.choice(self.known), ""
        busy = self.rnd.choice([None, None, None, "queue", "steer", "interrupt"])
        if self.rnd.random() < 0.3:
            key = f"k{self.rnd.randrange(12)}"
        if busy in {"steer", "interrupt"}:
            self.reordered.add(sid)
        wanted = {"text": f"prompt {key or len(self.log)}", "key": key, "when_busy": busy}
        for _ in range(self.rnd.choice([1, 1, 2]) if key else 1):
            self.call("prompt.submit", session_id=sid, **wanted)

    async def steer(self) -> None:
        self.reordered.add(self.on("session.steer", text=f"steer {len(self.log)}"))

    async def policy(self) -> None:
        sid = self.on("config.set", key="busy", value=self.rnd.choice(["queue", "steer"]))
        self.reordered.add(sid)

    def _turn(self) -> str:
        """The turn of a prompt, mostly of one that waits; perhaps of another session."""
        waiting = [turn.id for s in self.gw.sessions.live() for turn in s.queue]
        accepted = [turn for turns in self.accepted.values() for turn in sorted(turns)]
        return self.rnd.choice([*waiting * 3, *accepted[-6:], "turn_nobodys", ""])

    async def queue(self) -> None:
        turn_id = self._turn()
        owner = next((s.id for s in self.gw.sessions.live() if _waits(s, turn_id)), "")
        sid = owner or (self.rnd.choice(self.known) if self.known else "")
        if sid and self.rnd.random() < 0.5:
            self.call("prompt.queue.edit", session_id=sid, turn_id=turn_id, text="other words")
        elif sid:
            self.call("prompt.queue.remove", session_id=sid, turn_id=turn_id)

    async def undo(self) -> None:
        self.on("session.undo", turns=self.rnd.choice([1, 1, 2, 1000]))

    async def edit(self) -> None:
        if self.accepted:
            sid = self.rnd.choice(sorted(self.accepted))
            turn_id = self.rnd.choice([*sorted(self.accepted[sid])[-4:], self._turn()])
            self.call("prompt.edit", session_id=sid, turn_id=turn_id, text="again, in other words")

    async def branch(self) -> None:
        if len(self.known) < 10:
            self.on("session.branch", at=self.rnd.choice([0, 0, 1, 2, 3, 5]))

    async def compress(self) -> None:
        self.on("session.compress", focus_topic="all")

    async def interrupt(self) -> None:
        self.on("session.interrupt")

    async def close(self) -> None:
        self.on("session.close")

    async def delete(self) -> None:
        if self.known:
            sid = self.rnd.choice(self.known)
            self.call("session.delete", session_id=sid, profile=self.profile_of[sid])

    async def title(self) -> None:
        self.on("session.title", title=f"t{self.rnd.randrange(3)}")

    async def switch(self) -> None:
        self.on("config.set", key="model", value=f"scripted:m{self.rnd.randrange(3)}")

    async def answer(self) -> None:
        choice = self.rnd.choice(["once", "deny", "session", "once"])
        self.on("approval.respond", choice=choice, all=self.rnd.random() < 0.2)

    # --- devices ------------------------------------------------------------------------------

    async def device(self) -> None:
        """One device does one thing; it waits for its own answer, nobody else does."""
        free = [d for d in self.devices if d.busy is None or d.busy.done()]
        if free:
            device = self.rnd.choice(free)
            device.busy = asyncio.create_task(device.live(self.known, self.profile_of))
            self.calls.append(device.busy)

    async def vanish(self) -> None:
        device = self.rnd.choice(self.devices)
        self.log.append(f"{device.name} vanishes")
        self.calls.append(asyncio.create_task(device.vanish()))

    # --- time, memory, faults -----------------------------------------------------------------

    async def unload(self) -> None:
        live = [s for s in self.gw.sessions.live() if s.scope.admits and not in_use(s)]
        if live:
            session = self.rnd.choice(live)
            self.log.append(f"unload {session.id}")
            self.gw.sessions.unload(session, "chance")

    async def rest(self) -> None:
        if live := self.gw.sessions.live():
            session = self.rnd.choice(live)
            self.log.append(f"rest {session.id} {session.rest()}")

    async def look(self) -> None:
        self.log.append("look")
        if self.rnd.random() < 0.5:
            self.gw.sessions.reaper.look()
        else:
            self.gw.sessions.reaper.relieve(room=self.rnd.randrange(3))

    async def advance(self) -> None:
        seconds = self.rnd.choice([0.5, 2.5, 6.0, 31.0])
        self.log.append(f"advance {seconds}")
        self.clock.advance(seconds)

    async def block(self) -> None:
        self.log.append("block")
        store = self.rnd.choice(list(self.stores.values()))
        if store.busy is None:
            store.block()

    async def unblock(self) -> None:
        self.log.append("unblock")
        for store in self.stores.values():
            store.unblock()

    async def fail_store(self) -> None:
        if self.faults:
            self.log.append("fail")
            self.rnd.choice(list(self.stores.values())).fail_soon(self.rnd.randrange(6))

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
        await self.unblock()
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
            await threads(self.gw)
            if self.is_calm():
                await settle(30)
                return
        pytest.fail(f"it does not come to rest: {self.gw.census()}")

    def is_calm(self) -> bool:
        if any(e.kind == "thread" for e in self.gw.root.census()):
            return False  # a look at the folder takes its own time
        return not self.gw.sessions._opening and not any(
            s.current or s.queued or s.closing or s.endings._unsaved or s.status == "starting"
            for s in self.gw.sessions.live()
        )


def _waits(session: Session, turn_id: str) -> bool:
    return any(turn.id == turn_id for turn in session.queue)


async def _close(scope: Any) -> None:
    await scope.close()


async def threads(gw: TestGateway) -> None:
    """Builds read files in threads, which take their own time."""
    for _ in range(3):
        await call_in_thread(int)
    await until(lambda: not any(e.kind == "thread" for e in gw.root.census()), "their threads")
