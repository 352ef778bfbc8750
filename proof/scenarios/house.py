"""A whole gateway for one schedule: real sessions, rpc and agent; the store and people are fakes.

Each step of a fake (a commit, a read, a piece of the model's answer, a part of a build) is a moment
of its own, which the strategy chooses; each may fail.
"""

from __future__ import annotations

import asyncio
import inspect
import shutil
from collections import defaultdict
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from proof import session_oracles as oracles
from proof.loop import ExploringLoop
from proof.oracles import planned, require
from proof.scenarios.people import Person
from proof.seams import scratch
from tenure.config import Config
from tenure.errors import ModelError, StoreFull
from tenure.lifecycle.scope import Scope
from tenure.models.script import Script
from tenure.protocol.messages import EventParams
from tenure.protocol.methods import METHODS
from tenure.rpc.connection import Connection
from tenure.sessions.actor import Session
from tenure.sessions.recovery import Recovery
from tenure.sessions.resources import SessionPorts
from tenure.settings import CheckpointsConfig
from tenure.store import base as b
from tenure.store.holding import Held, settle
from tenure.testing.gates import Gate
from tenure.testing.gateway import TestGateway, open_test_gateway
from tenure.testing.store import MemoryStore
from tenure.testing.tools import scripted_tool
from tenure.tools.base import Effect
from tenure.tools.delegate import Delegate

MODEL = "the model goes on"
OTHER = "work"
"""The name of the other profile."""
SEED = [
    {"role": "user", "content": "What was said first."},
    {"role": "assistant", "content": "And answered."},
]
STEPS = [
    [{"gate": "a"}, {"deltas": ["One ", "two "]}, {"gate": "b"}, {"text": "three."}],
]
ACT = {
    "match": "please act",
    "step": [{"gate": "a"}, {"call": {"name": "act", "arguments": {"text": "done"}}}],
}
DELEGATE = {
    "match": "please delegate",
    "step": [
        {"gate": "a"},
        {"call": {
            "name": "delegate", "arguments": {"tasks": [{"goal": "look"}, {"goal": "please act"}]}
        }},
    ],
}  # fmt: skip
LOOK = {"match": "look", "step": [{"gate": "a"}, {"deltas": ["I ", "see."]}, {"gate": "b"}]}


CONFIG = Config(checkpoints=CheckpointsConfig(enabled=False))
"""Nothing of a run may stay in a file, or the next one would be another."""


def folder() -> Path:
    """Where the gateway lives."""
    path = scratch()
    other = path / "home" / "profiles" / OTHER
    if not other.exists():
        other.mkdir(parents=True)
    return path


def _forget_files() -> None:
    """What the run before has attached."""
    for name in ("home/uploads", "spill"):
        if (files := scratch() / name).exists():
            shutil.rmtree(files)


class Moment(Gate):
    """A gate that opens by itself at some moment, or fails."""

    def __init__(
        self, loop: ExploringLoop, name: str, error: Callable[[], Exception] | None
    ) -> None:
        super().__init__()
        self._moments, self._name, self._error = loop, name, error

    async def park(self) -> None:
        await self._moments.port(self._name)
        if self._error is not None and self._moments.fault(self._name):
            raise self._error()


class ExploredStore(MemoryStore):
    """Commits and reads at moments of their own; may refuse a write for lack of space."""

    def __init__(self, loop: ExploringLoop, name: str = "the store") -> None:
        super().__init__(Moment(loop, f"{name} commits", None))
        self.loop, self.name = loop, name
        self.commits = 0
        self.failed = 0
        self.deleted: set[str] = set()
        self.dead = False
        self.openings = 1
        """How many have it open; what has leaked, and is closed late, counts too."""

    def _check_usable(self) -> None:
        require(self.openings > 0, f"V3: {self.name} is used after its profile was closed")

    def write(self, *ops: b.Op) -> asyncio.Future[list[Any]]:
        if self.dead:
            return self.loop.create_future()
        self._check_usable()
        if self.loop.fault(f"{self.name}'s write"):
            self.failed += 1
            self.fail(planned(StoreFull("No space is left.")))
        self.deleted.update(op.id for op in ops if isinstance(op, b.DeleteSession))
        return super().write(*ops)

    def _check_home(self) -> None:
        self.commits += 1
        super()._check_home()


def _read_at_a_moment(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    read = getattr(MemoryStore, name)

    async def later(self: ExploredStore, *args: Any, **kwargs: Any) -> Any:
        await self.loop.port(f"{self.name} reads")
        self._check_usable()
        return await read(self, *args, **kwargs)

    return later


for _name in vars(b.Store):  # whatever is read, something else may come between
    if inspect.iscoroutinefunction(getattr(b.Store, _name)) and _name != "aclose":
        setattr(ExploredStore, _name, _read_at_a_moment(_name))


class MomentScript(Script):
    """A script whose gates open at some moment."""

    def __init__(self, loop: ExploringLoop) -> None:
        super().__init__(STEPS, on=[ACT, DELEGATE, LOOK], loop=True)
        self._moments = loop

    async def wait_gate(self, name: str, clock: object) -> None:
        del name, clock
        await self._moments.port(MODEL)
        if self._moments.fault("the model"):
            raise planned(ModelError("The model failed.", provider="scripted"))


class House:
    """One run: the gateway, its people, what they were promised.

    Attributes:
        sid: the session that it is about.
        window: whoever opened it.
        names: short names of sessions, for the story.
        accepted: turns that were acknowledged, by session.
    """

    def __init__(self, loop: ExploringLoop) -> None:
        _forget_files()
        self.loop = loop
        self.stores = {"default": ExploredStore(loop), OTHER: ExploredStore(loop, "work's store")}
        self.stores[OTHER].openings = 0
        self.script = MomentScript(loop)
        self.names: dict[str, str] = {}
        self.accepted: dict[str, set[str]] = defaultdict(set)
        self.people: list[Person] = []
        self.sid = ""
        self.window: Person
        self.ended = self.crashed = False
        self.watch = oracles.Watch(self)
        self._served_by: dict[str, Person] = {}
        self._stack = AsyncExitStack()
        self._over: asyncio.Future[None] | None = None

    # --- the gateway ------------------------------------------------------------------------------

    async def open(self, config: Config | None = None) -> None:
        """Start the gateway."""
        loop = self.loop
        act = scripted_tool("act", effect=Effect.WRITE)
        self.gw: TestGateway = await self._stack.enter_async_context(
            open_test_gateway(
                folder(), self.script, clock=loop.clock, store=self.stores["default"],
                config=config or CONFIG, tools=lambda _c, _s: (act, Delegate()),
            )
        )  # fmt: skip
        self.sessions = self.gw.sessions
        self.gw.open_profile = self._open_profile
        for step in self.gw.picker.STEPS:
            self.gw.picker.gates[step] = Moment(
                loop,
                f"the {step} is made",
                lambda: planned(ModelError("No key.", provider="scripted")),
            )
        loop.on_step = self.watch.step
        if loop.faults:
            loop.on_task = self._on_task

    async def _open_profile(self, name: str, scope: Scope, base: SessionPorts) -> SessionPorts:
        left = any(e.state == "leaked" for e in self.gw.root.census())
        require(left or not self.stores[name].openings, f"V3: profile {name} is opened twice")
        await self.loop.port(f"profile {name} is opened")
        self.stores[name].openings += 1
        scope.own("profile store", name, self._close_profile)
        return replace(base, store=self.stores[name], profile=name, uploads=None)

    async def _close_profile(self, name: str) -> None:
        self.stores[name].openings -= 1
        await self.loop.port(f"profile {name} is closed")

    async def boot(self) -> None:
        """A new process on the rows that the dead one has left."""
        stores = self.stores
        self.stores = {}
        for name, old in stores.items():
            store = self.stores[name] = ExploredStore(self.loop, old.name)
            store._rows = old._rows.copy()
            store.deleted, store.failed = old.deleted, old.failed
            _ = await settle(store, Held(1, self.loop.clock.wall()), self.loop.clock.wall())
            store.openings = int(name != OTHER)
        self.loop._dead.append(self._stack)
        self._stack = AsyncExitStack()
        self.script = MomentScript(self.loop)
        self.people.clear()
        await self.open()
        _ = Recovery(self.gw.root.child("recovery"), self.sessions).begin()

    def crash(self) -> None:
        """The process dies in this moment. What is not committed has never been."""
        self.tell("! the gateway is killed")
        self.crashed = True
        self.loop.exploring = False
        for store in self.stores.values():
            store.dead = True
        self.loop.on_step = self.loop.on_task = None
        self.loop.wipe()
        for person in self.people:
            person.forget()
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    # --- people -----------------------------------------------------------------------------------

    def person(self, name: str) -> Person:
        """Somebody who is connected."""
        person = Person(self, name)
        connection = Connection(person.wire, self.gw.ports, self.gw._connections.child(name))
        served_by = f"connection of {name}"
        self._served_by[served_by] = person
        self.gw._connections.spawn(connection.run(), name=served_by)
        self.people.append(person)
        return person

    def _on_task(self, task: asyncio.Task[Any]) -> None:
        """V15: a request may be cancelled at every await, and its connection with it."""
        server = asyncio.current_task(self.loop) if self.loop.exploring else None
        person = self._served_by.get(server.get_name()) if server else None
        if person is not None and task.get_name() in METHODS:

            def strike() -> None:
                task.cancel()
                person.cut()

            key = self.loop.victim(f"{person.name}'s {task.get_name()} is cancelled", strike)
            task.add_done_callback(lambda _: self.loop.take_back(key))

    # --- what was promised ------------------------------------------------------------------------

    def tell(self, line: str) -> None:
        self.loop.tell(line)

    def name_session(self, sid: str) -> None:
        self.names.setdefault(sid, f"s{len(self.names) + 1}")

    def accept(self, sid: str, turn_id: str) -> None:
        self.names.setdefault(turn_id, f"t{sum(map(len, self.accepted.values())) + 1}")
        self.accepted[sid].add(turn_id)

    def promised(self, holds: object, sid: str, told: str) -> None:
        """V13, unless the session is being deleted."""
        gone = any(sid in store.deleted for store in self.stores.values())
        require(holds or gone, f"V13: {self.names.get(sid, sid)}: {told}")

    def stored(self, sid: str) -> dict[str, Any] | None:
        return next(
            (s._rows.sessions[sid] for s in self.stores.values() if sid in s._rows.sessions), None
        )

    def turn(self, turn_id: str) -> dict[str, Any] | None:
        return next(
            (s._rows.turns[turn_id] for s in self.stores.values() if turn_id in s._rows.turns), None
        )

    def has_event(self, event: EventParams) -> bool:
        key = (event.session_id, event.epoch, event.seq)
        found = next(
            (s._rows.events[key] for s in self.stores.values() if key in s._rows.events), None
        )
        return found is not None and found.type == event.type

    # --- the session ------------------------------------------------------------------------------

    @property
    def session(self) -> Session | None:
        """The live session that it is about, if it is live."""
        return self.sessions.find(self.sid)

    async def settle(self) -> None:
        """Until nothing but time could change anything."""
        await self.loop.quiet()

    async def begin(self, **params: Any) -> Person:
        """Somebody opens a session with a little history, and its agent is built."""
        window = self.person("W")
        opened = await window.call("session.create", messages=SEED, **params)
        self.sid = opened["session_id"]
        await self.settle()
        return window

    async def race(self, **ops: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Let every operation begin at some moment, and wait until all are over."""
        over = self._over = self.loop.create_future()
        left = set(ops)
        self.loop.exploring = True
        self.loop.let_go()
        for name, op in ops.items():
            self.loop.outside(f"{name}", partial(self._start, name, op, left, over))
        await over

    def _start(
        self,
        name: str,
        op: Callable[[], Coroutine[Any, Any, object]],
        left: set[str],
        over: asyncio.Future[None],
    ) -> None:
        task = self.loop.create_task(op(), name=f"op {name}")

        def ended(done: asyncio.Task[object]) -> None:
            left.discard(name)
            if not done.cancelled() and (error := done.exception()) is not None:
                require(False, f"{name} ended with {error!r}")
            if not left and not over.done():
                over.set_result(None)

        task.add_done_callback(ended)

    async def finish(self) -> None:
        """Come to rest, look, end the gateway, look again."""
        await self.settle()
        self.loop.exploring = False
        if self.crashed:
            await self.boot()
        await oracles.calm(self)
        await oracles.at_rest(self)
        self.ended = True
        await self._stack.aclose()
        for person in self.people:
            person.gone()
        await self.settle()
        oracles.over(self)
