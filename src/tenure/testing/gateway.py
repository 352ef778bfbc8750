"""A whole gateway in a test: real sessions, rpc and loop; model and store faked if wished."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tenure.checkpoints.keeper import Checkpoints
from tenure.client import Client
from tenure.clock import Clock, SystemClock
from tenure.config import DEFAULT_PROFILE, Config, Home, Loaded, load
from tenure.lifecycle.scope import Scope
from tenure.models.base import Model, ModelRequest, Picked
from tenure.models.script import Script
from tenure.models.scripted import ScriptedModel
from tenure.processes.quotas import Ceiling
from tenure.processes.spawn import Spawner
from tenure.processes.watchman import Watchman
from tenure.protocol.messages import EventParams
from tenure.reload import LiveConfig, Reload
from tenure.rpc.connection import Connection
from tenure.rpc.ports import GatewayPorts
from tenure.sandbox.choice import Chooser, Machine
from tenure.sessions.admission import WorkingDirectories
from tenure.sessions.configured import tell_sessions
from tenure.sessions.grants import Grants
from tenure.sessions.profiles import Profiles
from tenure.sessions.registry import Sessions
from tenure.sessions.resources import SessionPorts
from tenure.sessions.uploaded import Uploads
from tenure.store.base import Store
from tenure.testing.clock import ManualClock
from tenure.testing.gates import Gate
from tenure.testing.store import MemoryStore
from tenure.testing.waiting import PATIENCE_S
from tenure.tools.base import Tool
from tenure.transports.memory import memory_pair

OpenProfile = Callable[[str, Scope, SessionPorts], Awaitable[SessionPorts]]
"""Opens a profile below a scope, from the ports of the default one."""


class StepPicker:
    """A `ModelPicker` whose pick takes named steps; a test may park or fail any of them.

    Attributes:
        opened: the resources that are held now, by step name.
        log: every opening and release, in order.
    """

    STEPS = ("credentials", "http client", "model")

    def __init__(self, script: Script, clock: Clock) -> None:
        self.script = script
        self.clock = clock
        self.gates: dict[str, Gate] = {}
        self.failures: dict[str, Exception] = {}
        self.opened: list[str] = []
        self.log: list[str] = []
        self.picks = 0
        self.ahead: ModelRequest | None = None

    async def pick(self, wanted: str, into: Scope) -> Picked:
        """Take every step, each owned by `into`."""
        self.picks += 1
        for step in self.STEPS:
            await into.build(step, partial(self._open, step), self._release)
        return Picked(ScriptedModel(wanted or "scripted:test", self.script, self.clock), "a test")

    async def _open(self, step: str) -> str:
        if step in self.gates:
            await self.gates[step].park()
        if step in self.failures:
            raise self.failures[step]
        self.opened.append(step)
        self.log.append(f"open {step}")
        return step

    def _release(self, step: str) -> None:
        self.opened.remove(step)
        self.log.append(f"release {step}")

    def read_ahead(self, model: Model, prefix: Callable[[], ModelRequest], into: Scope) -> None:
        """The scripted model needs none; what would be read is kept."""
        del model, into
        self.ahead = prefix()

    async def options(self) -> dict[str, Any]:
        """Nothing to choose from."""
        return {"providers": [], "provider": "scripted", "model": "test"}

    async def ready(self) -> tuple[bool, str, str]:
        """Always."""
        return True, "scripted:test", "a test"


class TestClient(Client):
    """A client that keeps every event it has taken."""

    __test__ = False

    async def until(self, kind: str, session_id: str = "") -> EventParams:
        """The next event of that type (and session)."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                event = await self.next_event()
                self.seen.append(event)
                if event.type == kind and session_id in ("", event.session_id):
                    return event

    @property
    def seen(self) -> list[EventParams]:
        """What `until` has passed."""
        seen: list[EventParams] = self.__dict__.setdefault("_seen", [])
        return seen

    async def ready_session(self, **params: Any) -> str:
        """Create a session and wait until its agent is there; its id."""
        opened = await self.call("session.create", **params)
        if opened["info"]["lazy"]:
            await self.until("session.info", opened["session_id"])
        return str(opened["session_id"])


class TestGateway:
    """The gateway under test. Made by `open_test_gateway`.

    Attributes:
        open_profile: opens a profile other than the default one.
    """

    __test__ = False

    def __init__(self, root: Scope, ports: GatewayPorts, picker: StepPicker, store: Store) -> None:
        self.root = root
        self.ports = ports
        self.picker = picker
        self.store = store
        self.sessions = ports.sessions
        self.open_profile: OpenProfile = _in_memory
        self._connections = root.child("connections")
        self._clients = Scope.root("clients", ports.clock)

    async def client(self) -> tuple[TestClient, Scope]:
        """A connected client, and the scope that ends its side (a clean disconnect)."""
        ours, theirs = memory_pair()
        connection = Connection(theirs, self.ports, self._connections.child("connection"))
        self._connections.spawn(connection.run(), name="connection")
        scope = self._clients.child("client")
        client = TestClient.open(ours, scope)
        assert isinstance(client, TestClient)
        await client.until("gateway.ready")
        return client, scope

    def census(self, part: str = "") -> list[str]:
        """What is held, as "kind label", below paths that contain `part`."""
        return [f"{e.kind} {e.label}".strip() for e in self.root.census() if part in e.owner]

    async def aclose(self) -> None:
        """End everything."""
        await self._clients.close()
        await self.sessions.drain("test over", 5.0)
        await self.root.close()


@asynccontextmanager
async def open_test_gateway(  # noqa: PLR0913 - what may be replaced, each by name
    folder: Path,
    script: Script,
    *,
    clock: Clock | None = None,
    store: Store | None = None,
    config: Config | None = None,
    tools: Callable[[Config, bool], tuple[Tool, ...]] = lambda _config, _small: (),
    boxes: bool = False,
) -> AsyncIterator[TestGateway]:
    """A gateway whose sessions work in `folder`; ended on leaving.

    Profiles are folders in ``folder/home/profiles``; unless `TestGateway.open_profile` is set to
    something else, each has a store in memory, which is empty whenever it is opened.
    Commands run unconfined unless there are to be `boxes`.
    """
    used_clock = clock or ManualClock()
    root = Scope.root("gateway", used_clock)
    used_store = store or MemoryStore()
    root.own("store", used_store, lambda s: s.aclose())
    picker = StepPicker(script, used_clock)
    home = Home(folder / "home", folder / "cache")
    live = _live(config, home, lambda found: tell_sessions(ports.sessions, DEFAULT_PROFILE, found))
    spawner = Spawner(instance="test-0", environ={"PATH": "/usr/bin:/bin"}, clock=used_clock)
    machine = Machine(folder / "user", home.root, home.root / "boxes", folder / "spill")
    session_ports = SessionPorts(
        store=used_store,
        clock=used_clock,
        config=live,
        live=live,
        models=picker,
        tools=tools,
        spawner=spawner,
        sandboxes=Chooser(root, spawner, machine, lambda: live.config.sandbox) if boxes else None,
        grants=Grants(folder / "grants.json"),
        spill=folder / "spill",
        checkpoints=Checkpoints(
            home.checkpoints, used_clock, lambda: live.config.checkpoints, (home.root,)
        ),
        user_home=folder,
        uploads=Uploads(home.uploads, spawner),
        private=(home.root,),
        holder="test-0",
    )

    async def opened(name: str, scope: Scope) -> SessionPorts:
        return await gateway.open_profile(name, scope, session_ports)

    profiles = Profiles(root, home, session_ports, opened)
    ports = GatewayPorts(
        root=root,
        sessions=Sessions(root.child("sessions"), profiles),
        profiles=profiles,
        store=used_store,
        models=picker,
        clock=used_clock,
        config=live,
        watchman=Watchman(root, spawner, used_clock, Ceiling),
        folders=WorkingDirectories(folder),
        instance="test-0",
        started_at=used_clock.wall(),
        facts=dict,
    )
    gateway = TestGateway(root, ports, picker, used_store)
    ports.sessions.begin()
    async with _ended(gateway, used_clock):
        yield gateway


@asynccontextmanager
async def _ended(gateway: TestGateway, clock: Clock) -> AsyncIterator[None]:
    """End it on leaving; a test that has failed need not wait for what it has left stuck."""
    try:
        yield
    except BaseException:
        async with Scope.root("failed", SystemClock()) as scope:
            scope.spawn(_pass_time(clock), name="time passes")
            await gateway.aclose()
        raise
    await gateway.aclose()


async def _pass_time(clock: Clock) -> None:
    while isinstance(clock, ManualClock):
        clock.advance(1.0)
        await asyncio.sleep(0)


def _live(config: Config | None, home: Home, told: Callable[[Reload], object]) -> LiveConfig:
    """What is configured until there is a file, and then what that says."""
    first = Loaded(config or Config(), home.config, exists=False)
    files = (home.config,)
    return LiveConfig(
        first, lambda: load(home) if home.config.exists() else first, files, told=told
    )


async def _in_memory(name: str, scope: Scope, base: SessionPorts) -> SessionPorts:
    store = scope.own("store", MemoryStore(), lambda s: s.aclose()).value
    return replace(base, store=store, profile=name)


def values(value: Any) -> Any:
    """A struct as plain values, for comparing."""
    return msgspec.to_builtins(value)
