"""The composition root: the one place that picks adapters and decides in which order they live.

    root scope
    ├── log, home lock
    ├── children of every kind (spawner), orphan reaper, guard watch
    ├── store                     opened after "ready", in a thread
    ├── shared model providers
    ├── sessions                  each session is a child scope
    └── connections, listener     end first

Closing the root ends it all in reverse, inside one budget of seconds (shutdown.py).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tenure import __version__
from tenure.clock import Clock, SystemClock
from tenure.config import DEFAULT_PROFILE, Config, Home, Loaded, load_profile
from tenure.errors import Conflict, InternalError, LeaseLost, ScopeClosed, TenureError
from tenure.home import GatewayNote, Holder, HomeLock, read_token, remove_note, write_note
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.imports import import_off_loop
from tenure.lifecycle.lease import Lease
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import call_in_thread
from tenure.logs import Redactor, close_log, open_log
from tenure.processes.guard import Guarded
from tenure.processes.identity import Identity, boot_id, identity_of, is_alive
from tenure.processes.reconcile import reconcile
from tenure.processes.spawn import Spawner
from tenure.processes.watch import OrphanReaper, watch_guard
from tenure.processes.whole import WholeProcess, calm_collector
from tenure.reload import LiveConfig, Reload, unchanged
from tenure.sessions.budget import Memory
from tenure.shutdown import Budget, budget
from tenure.store.base import SettleLeftovers, Store
from tenure.store.holding import give_up_home, keep_home, settle, take_home
from tenure.store.revision import look
from tenure.succession import check_free, succeed

if TYPE_CHECKING:
    from tenure.rpc.ports import GatewayPorts
    from tenure.server import Listener
    from tenure.sessions.resources import SessionPorts

log = logging.getLogger("tenure.gateway")

SUCCEED_TRIES = 50
SUCCEED_PAUSE_S = 0.1
"""A home whose holder has been ended is free within five seconds."""


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
        recovers: whether it takes up by itself what earlier gateways left unfinished. A command
            that works alone leaves that to the next `serve`, but for the sessions that it opens.
        on_top: puts on top of a configuration what the command line said.
        clock: time.
    """

    home: Home
    loaded: Loaded
    environ: Mapping[str, str]
    cwd: Path
    model: str = ""
    profile: str = ""
    guarded: Guarded | None = None
    recovers: bool = False
    on_top: Callable[[Config], Config] = unchanged
    clock: Clock = field(default_factory=SystemClock)


class Gateway:
    """A gateway, from its home's lock to its end. Made by `open_gateway`; ends with `aclose`."""

    def __init__(self, start: Start, root: Scope, redactor: Redactor) -> None:
        self.start = start
        self.root = root
        self.redactor = redactor
        self.instance = f"{_home_mark(start.home)}-{secrets.token_hex(4)}"
        self.holder = _holder(self.instance, start.guarded)
        self.token = ""
        self.url = ""
        self.started_at = start.clock.wall()
        self.stop_asked = asyncio.Event()
        self.stop_reason = "asked"
        self.spawner = Spawner(instance=self.instance, environ=start.environ, clock=start.clock)
        self.tell_config: Callable[[str, Reload], object] = lambda _profile, _found: None
        self.live = self.follow(DEFAULT_PROFILE)
        self._ports: Lease[GatewayPorts] | None = None
        self._opening: asyncio.Future[GatewayPorts] | None = None
        self._late: Scope | None = None
        self._listener: Listener | None = None
        self.connections: Scope | None = None
        self.memory = Memory()

    def config(self) -> Config:
        """The configuration in force."""
        return self.live.config

    def follow(self, profile: str) -> LiveConfig:
        """The configuration of a profile, as its files say from now on. Reads them, in the loop.

        Raises:
            ConfigError: one of them is wrong.
        """
        home, own = self.start.home, self.start.home.profile(profile)
        default = profile == DEFAULT_PROFILE
        loaded = self.start.loaded if default else load_profile(home, profile)
        return LiveConfig(
            msgspec.structs.replace(loaded, config=self.start.on_top(loaded.config)),
            lambda: load_profile(home, profile),
            (home.config,) if default else (home.config, own.config),
            on_top=self.start.on_top,
            told=lambda found: self.tell_config(profile, found),
        )

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
        whole = WholeProcess.claim(self.instance)
        root.own("whole process", whole, lambda whole: whole.put_back())
        lock = HomeLock.acquire(home)
        root.own("home lock", lock, lambda held: held.release(), label=str(home.root))
        handler = open_log(home.logs, self.config().log_level, self.redactor)
        root.own("log", handler, close_log)
        root.on_failure = _log_failure
        look(home.database)
        check_free(home)
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
        await self.hold(store, late, self.config())
        mark = _home_mark(self.start.home)
        swept = await reconcile(
            late, lambda instance: instance.startswith(f"{mark}-") and instance != self.instance
        )
        if swept.ended:
            log.warning("Ended processes that an earlier run left: pids %s", swept.ended)
        compose = (await import_off_loop("tenure.compose")).compose
        ports: GatewayPorts = await compose(self, late, store)
        calm_collector()
        return ports

    async def hold(self, store: Store, scope: Scope, config: Config) -> None:
        """Hold the home in `store`, and end the rows that the holder before us left open there.

        Args:
            store: of the home, or of a profile.
            scope: gives the lease up at its end, before the store that it has opened.
            config: of the profile.

        Raises:
            Conflict: its holder may be alive.
            StoreError: the store failed.
        """
        lease_s, clock = self.config().server.lease_s, self.start.clock
        try:
            held = await take_home(
                store, self.holder, lease_s, is_gone=self._is_gone, lost=self._lose_home
            )
        except LeaseLost as exc:
            raise Conflict(f"The home {self.start.home.root} is in use. {exc}") from None
        scope.own("home lease", held.epoch, lambda epoch: give_up_home(store, epoch))
        scope.spawn(keep_home(store, held.epoch, lease_s, clock), name="renew the home lease")
        settled = await settle(store, held, clock.wall(), hook=bool(config.hooks.session_end))
        if any(settled.values()):
            log.warning("Ended rows that an earlier run left open: %s", settled)

    def _is_gone(self, holder: str) -> bool:
        """Whether the holder of that identity runs no more (or is ourselves, before)."""
        known = Holder.read(holder)
        if known is None or holder == self.holder:
            return True
        return not is_alive(Identity(known.pid, known.start_time, known.boot_id))

    def _lose_home(self) -> None:
        log.error("Another gateway has taken the home; this one ends and can store nothing more")
        self.ask_stop("another gateway has taken the home")

    # --- listening ----------------------------------------------------------------------------

    async def listen(self, sock: socket.socket, allow_hosts: tuple[str, ...] = ()) -> str:
        """Serve on a bound socket, which is owned from here on; the URL (without the token)."""
        server = await import_off_loop("tenure.server")
        assert self.connections is not None
        config = self.config().server
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
        me = Holder.read(self.holder)
        assert me is not None
        note = GatewayNote(
            instance=self.instance,
            pid=me.pid,
            guard_pid=me.guard_pid,
            start_time=me.start_time,
            boot_id=me.boot_id,
            url=self.url,
            version=__version__,
            started_at=self.started_at,
        )
        write_note(self.start.home, note)
        home = self.start.home
        self.root.own("gateway note", home, lambda at: remove_note(at, self.instance))

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

    async def aclose(self, reason: str = "") -> bool:
        """End everything, in reverse, within the budget of shutdown.py. Idempotent.

        Returns:
            Whether all has ended. Else the process should exit now: every transcript is stored, and
            the guard ends what still runs.
        """
        reason = reason or self.stop_reason
        limits = budget(self.config().server)
        log.info("Ending: %s (within %.0f s)", reason, limits.total_s)
        if self._opening is not None and self._opening.done() and not self._opening.exception():
            await self._end_sessions(self._opening.result(), reason, limits)
        try:
            async with deadline(self.start.clock, limits.rest_s):
                report = await self.root.close(reason)
        except TimeoutError:
            log.warning("Ending took over %.0f s; the process ends the rest", limits.total_s)
            return False
        for failure in report.failures:
            log.warning("Ending left a failure: %s", failure)
        return True

    async def _end_sessions(self, ports: GatewayPorts, reason: str, limits: Budget) -> None:
        """All sessions, in parallel; what does not end in time is ended in the store."""
        if await ports.sessions.drain(f"gateway ended ({reason})", limits.sessions_s):
            return
        left = ports.sessions.live()
        for session in left:
            if session.current is not None:
                session.abandon(session.current, "shutdown")
        log.warning("%d sessions did not end in %.0f s", len(left), limits.sessions_s)
        now, by_profile = self.start.clock.wall(), {s.ports.profile: s.ports for s in left}
        with suppress(TimeoutError):
            async with deadline(self.start.clock, limits.rows_s):
                await asyncio.wait([_end_rows(ports, now) for ports in by_profile.values()])


def _end_rows(ports: SessionPorts, now: float) -> asyncio.Future[list[Any]]:
    hook = bool(ports.config().hooks.session_end)
    return ports.store.write(SettleLeftovers("shutdown", now, keep_queued=True, hook=hook))


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


async def open_gateway_in_time(start: Start) -> Gateway:
    """`open_gateway`, also where the home's holder has fallen silent: it is then succeeded.

    Raises:
        As `open_gateway`. Conflict: the holder renews its lease.
    """
    try:
        return open_gateway(start)
    except Conflict:
        if not await call_in_thread(succeed, start.home):
            raise
    for _ in range(SUCCEED_TRIES):
        try:
            return open_gateway(start)
        except Conflict:
            await start.clock.sleep(SUCCEED_PAUSE_S)
    return open_gateway(start)


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


def _holder(instance: str, guarded: Guarded | None) -> str:
    """Our identity, as the home's lease holds it."""
    me = identity_of(os.getpid())
    guard = identity_of(guarded.guard_pid) if guarded else None
    return Holder(
        instance, os.getpid(), me.start_time if me else 0, boot_id(),
        guard.pid if guard else 0, guard.start_time if guard else 0,
    ).text()  # fmt: skip


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
