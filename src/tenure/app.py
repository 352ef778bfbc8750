"""The composition root: the one place that picks adapters and decides in which order they live.

    root scope
    ├── log, home lock
    ├── children of every kind (spawner), orphan reaper, guard watch
    ├── store                     opened after "ready", in a thread
    ├── shared model providers
    ├── sessions                  each session is a child scope
    └── connections, listener     end first

Closing the root ends it all in reverse, inside one budget of seconds.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
import os
import secrets
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenure import __version__
from tenure.clock import Clock, SystemClock
from tenure.config import Config, Home, Loaded
from tenure.errors import InternalError, ScopeClosed, TenureError
from tenure.home import GatewayNote, HomeLock, read_token, write_note
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.imports import import_off_loop
from tenure.lifecycle.lease import Lease
from tenure.lifecycle.scope import Scope
from tenure.logs import Redactor, close_log, open_log
from tenure.processes.brand import wear
from tenure.processes.guard import Guarded
from tenure.processes.identity import boot_id, identity_of
from tenure.processes.reconcile import reconcile
from tenure.processes.spawn import Spawner
from tenure.processes.watch import OrphanReaper, watch_guard
from tenure.sessions.events import RingBudget
from tenure.store.base import SettleLeftovers, Store
from tenure.store.revision import look

if TYPE_CHECKING:
    from tenure.rpc.ports import GatewayPorts
    from tenure.server import Listener

log = logging.getLogger("tenure.gateway")

SHUTDOWN_BUDGET_S = 20.0
"""All of a graceful stop. Sessions get the larger part, in parallel; what is left ends the rest."""
SESSIONS_SHARE = 0.6
SWITCH_INTERVAL_S = 0.0005
CRASH = "crash"
"""The reason of rows whose gateway died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a gateway is to start.

    Attributes:
        home: where everything of it lives.
        loaded: its configuration.
        environ: the process environment, read once.
        cwd: working directory of sessions that name none.
        model: ``--model``, or empty.
        profile: the profile of requests that name none; empty: the one in use, see `used_profile`.
        guarded: the guard above us, if any.
        clock: time.
    """

    home: Home
    loaded: Loaded
    environ: Mapping[str, str]
    cwd: Path
    model: str = ""
    profile: str = ""
    guarded: Guarded | None = None
    clock: Clock = field(default_factory=SystemClock)


class Gateway:
    """A gateway, from its home's lock to its end. Made by `open_gateway`; ends with `aclose`."""

    def __init__(self, start: Start, root: Scope, redactor: Redactor) -> None:
        self.start = start
        self.root = root
        self.redactor = redactor
        self.instance = f"{_home_mark(start.home)}-{secrets.token_hex(4)}"
        self.token = ""
        self.url = ""
        self.started_at = start.clock.wall()
        self.stop_asked = asyncio.Event()
        self.stop_reason = "asked"
        self.spawner = Spawner(instance=self.instance, environ=start.environ, clock=start.clock)
        self._config = start.loaded.config
        self._ports: Lease[GatewayPorts] | None = None
        self._opening: asyncio.Future[GatewayPorts] | None = None
        self._late: Scope | None = None
        self._listener: Listener | None = None
        self.connections: Scope | None = None
        self.rings = RingBudget()

    def config(self) -> Config:
        """The configuration in force."""
        return self._config

    def ask_stop(self, reason: str) -> None:
        """Ask for a graceful end. Idempotent; the first reason stands."""
        if not self.stop_asked.is_set():
            self.stop_reason = reason
            self.stop_asked.set()

    # --- opening ------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Everything that must be known before "ready": lock, log, token, schema. Fast.

        Raises:
            Conflict: another gateway holds the home.
            ConfigError, StoreError: the home or the database is unusable.
        """
        home, root = self.start.home, self.root
        lock = HomeLock.acquire(home)
        root.own("home lock", lock, lambda held: held.release(), label=str(home.root))
        handler = open_log(home.logs, self._config.log_level, self.redactor)
        root.own("log", handler, close_log)
        root.on_failure = _log_failure
        look(home.database)
        wear(self.instance)
        # The store's writer computes in Python beside the loop: let the loop have the interpreter
        # back after half a millisecond instead of five.
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self.token = read_token(home)
        self.redactor.know(self.token)
        if self.start.guarded is not None:
            watch_guard(root, self.start.guarded, lambda: self.ask_stop("the guard is gone"))
        OrphanReaper(root, self.spawner)
        # What opens later must still end before these and after connections: its place is here.
        self._late = root.child("core")
        self.connections = root.child("connections")

    async def ports(self) -> GatewayPorts:
        """What handlers are given; opens the store and the rest on first use, once.

        Raises:
            StoreError: the database cannot be opened.
            ScopeClosed: the gateway is ending.
        """
        return await asyncio.shield(self.begin_open())

    def begin_open(self) -> asyncio.Future[GatewayPorts]:
        """Begin to open the store and the rest, unless begun. A failure asks for the stop.

        Raises:
            ScopeClosed: the gateway is ending.
        """
        if self._opening is None:
            assert self._late is not None
            opening = asyncio.get_running_loop().create_future()
            task = self._late.spawn(self._open(opening), name="open store").value
            task.add_done_callback(lambda _: _never_opened(opening))
            self._opening = opening
        return self._opening

    async def _open(self, opening: asyncio.Future[GatewayPorts]) -> None:
        try:
            opening.set_result(await self._open_core())
        except Exception as exc:
            log.exception("The gateway cannot open its store")
            if not isinstance(exc, TenureError):
                exc = InternalError(f"The gateway cannot open its store ({exc!r}).")
            opening.set_exception(exc)
            self.ask_stop(str(exc))

    async def _open_core(self) -> GatewayPorts:
        late = self._late
        assert late is not None
        store = await open_store(late, self.start.home)
        mark = _home_mark(self.start.home)
        swept = await reconcile(
            late, lambda instance: instance.startswith(f"{mark}-") and instance != self.instance
        )
        if swept.ended:
            log.warning("Ended processes that an earlier run left: pids %s", swept.ended)
        await settle(store, self.start.clock.wall())
        compose = (await import_off_loop("tenure.compose")).compose
        ports: GatewayPorts = await compose(self, late, store)
        calm_collector()
        return ports

    # --- listening ----------------------------------------------------------------------------

    async def listen(self, sock: socket.socket, allow_hosts: tuple[str, ...] = ()) -> str:
        """Serve on a bound socket, which is owned from here on; the URL (without the token)."""
        server = await import_off_loop("tenure.server")
        assert self.connections is not None
        config = self._config.server
        admission = server.Admission(
            self.token, (*config.allow_hosts, *allow_hosts), config.allow_origins
        )
        app = server.GatewayApp(admission, self.ports, self.connections)
        listener: Listener = server.Listener(app, sock)
        scope = self.root.child("listener")
        scope.spawn(listener.serve(), name="serve")
        scope.own("listener", listener, lambda held: held.aclose(), grace_s=3.0)
        self._listener = listener
        host, port = listener.address
        shown = f"[{host}]" if ":" in host else host
        self.url = f"ws://{shown}:{port}{server.WS_PATH}"
        return self.url

    def announce(self) -> None:
        """Write ``gateway.json``; owned by the root, removed at the end."""
        me = identity_of(os.getpid())
        guarded = self.start.guarded
        note = GatewayNote(
            instance=self.instance,
            pid=os.getpid(),
            guard_pid=guarded.guard_pid if guarded else 0,
            start_time=me.start_time if me else 0,
            boot_id=boot_id(),
            url=self.url,
            version=__version__,
            started_at=self.started_at,
        )
        write_note(self.start.home, note)
        self.root.own(
            "gateway note", self.start.home.gateway, lambda path: path.unlink(missing_ok=True)
        )

    def facts(self) -> dict[str, Any]:
        """Pids and URL, for gateway.info."""
        guarded = self.start.guarded
        return {
            "pid": os.getpid(),
            "guard_pid": guarded.guard_pid if guarded else 0,
            "url": self.url,
            "home": str(self.start.home.root),
            "cwd": str(self.start.cwd),
        }

    # --- ending -------------------------------------------------------------------------------

    async def aclose(self, reason: str = "") -> None:
        """End everything, in reverse, within `SHUTDOWN_BUDGET_S` seconds. Idempotent."""
        reason = reason or self.stop_reason
        log.info("Ending: %s", reason)
        if self._opening is not None and self._opening.done() and not self._opening.exception():
            ports = self._opening.result()
            await ports.sessions.drain(
                f"gateway ended ({reason})", SHUTDOWN_BUDGET_S * SESSIONS_SHARE
            )
        try:
            async with deadline(self.start.clock, SHUTDOWN_BUDGET_S):
                report = await self.root.close(reason)
        except TimeoutError:
            log.warning("Ending took over %s s; the process ends the rest", SHUTDOWN_BUDGET_S)
            return
        for failure in report.failures:
            log.warning("Ending left a failure: %s", failure)


def open_gateway(start: Start) -> Gateway:
    """A prepared gateway: lock, log and token are held, nothing slow has happened yet.

    Ownership: the caller must `aclose` it, also when a later step fails.

    Raises:
        Conflict, ConfigError, StoreError: the home cannot be had; nothing is held.
    """
    root = Scope.root("gateway", start.clock)
    gateway = Gateway(start, root, Redactor())
    try:
        gateway.prepare()
    except BaseException:
        root.claim("failed to start")
        root.end()
        raise
    return gateway


async def open_store(scope: Scope, home: Home) -> Store:
    """The database of a home, or of the part of it that is a profile; `scope` owns it.

    Raises:
        StoreError: it cannot be opened.
    """
    sqlite = await import_off_loop("tenure.store.sqlite")
    # As a lease, so that an end which comes now waits for the thread: it holds the file.
    prepared = await scope.build_in_thread(
        "database",
        lambda: sqlite.prepare(home.database, home.backups),
        lambda engine: engine.dispose(),
        grace_s=10.0,
    )
    lease: Lease[Store] = scope.own(
        "store", sqlite.open_sqlite(home.database, prepared.value), _close_store, grace_s=10.0,
        label=home.database.name,
    )  # fmt: skip
    return lease.value


async def settle(store: Store, wall_s: float) -> None:
    """End the rows that a dead gateway left open in `store`, before anybody uses it."""
    (settled,) = await store.write(SettleLeftovers(CRASH, wall_s))
    if any(settled.values()):
        log.warning("Ended rows that an earlier run left open: %s", settled)


def _home_mark(home: Home) -> str:
    """A name for a home that fits a label and a brand: instances of one home begin alike."""
    return hashlib.sha256(str(home.root).encode()).hexdigest()[:7]


def _never_opened(opening: asyncio.Future[GatewayPorts]) -> None:
    if not opening.done():
        opening.set_exception(ScopeClosed("The gateway is ending; its store was not opened."))
    opening.exception()  # nobody need be waiting


async def _close_store(store: Store) -> None:
    await store.aclose()


def _log_failure(failure: object, error: BaseException | None) -> None:
    log.error("%s", failure, exc_info=error)


def calm_collector() -> None:
    """Full collections over ten thousand sessions would stall the loop 40-80 ms; see docs."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 50, 1000)
