"""Compose what handlers are given, from adapters. Imported off the loop, after "ready"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tenure.app import open_store
from tenure.browser.lending import Browsers, system_browsers
from tenure.checkpoints.keeper import Checkpoints
from tenure.config import DEFAULT_PROFILE, Home
from tenure.home import used_profile
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import run_in_thread
from tenure.models.credentials import Credentials
from tenure.models.picker import CatalogPicker
from tenure.processes.quotas import Quotas, ceiling_of
from tenure.processes.watchman import Watchman
from tenure.reload import LiveConfig
from tenure.rpc import connection as _connection
from tenure.rpc.ports import GatewayPorts
from tenure.sandbox.choice import ENV_SANDBOX, Chooser, Machine, Sandboxes
from tenure.sandbox.docker import Engine
from tenure.sandbox.folders import own_folders
from tenure.sessions.admission import WorkingDirectories
from tenure.sessions.configured import tell_sessions
from tenure.sessions.containers import ContainerRows, ContainerWatch
from tenure.sessions.grants import Grants
from tenure.sessions.memories import Memories
from tenure.sessions.profiles import Profiles
from tenure.sessions.recovery import Recovery
from tenure.sessions.registry import Sessions
from tenure.sessions.resources import SessionPorts
from tenure.sessions.upkeep import Upkeep
from tenure.sessions.uploaded import Uploads
from tenure.skills.shelf import Shelf
from tenure.store.base import Store
from tenure.tools.registry import Toolbox
from tenure.tools.web.reach import Reach
from tenure.toolservers.lending import Folders, ToolServers
from tenure.toolservers.remote import LOGINS, Network

_ = _connection  # the server takes it from here, already imported

if TYPE_CHECKING:
    from tenure.app import Gateway


class _Lent(NamedTuple):
    """What the profiles share."""

    browsers: Browsers
    elder: CatalogPicker | None = None


async def compose(gateway: Gateway, scope: Scope, store: Store) -> GatewayPorts:
    """Wire everything below `scope`, which owns it."""
    start = gateway.start
    _ = own_folders(scope, _boxes(gateway).parent, gateway.instance)
    quotas = Quotas(gateway.instance, lambda: ceiling_of(gateway.config().limits))
    quotas.roots.add(_boxes(gateway))
    gateway.spawner.quotas = quotas
    own = scope.child("browsers")
    browsers = system_browsers(own, gateway.spawner, start.environ, gateway.instance)
    base = _ports(gateway, scope, store, DEFAULT_PROFILE, gateway.live, _Lent(browsers))
    assert isinstance(base.models, CatalogPicker)
    profiles = Profiles(
        scope,
        start.home,
        base,
        partial(_open_profile, gateway, _Lent(browsers, base.models)),
        fallback=start.profile or used_profile(start.home),
    )
    watchman = Watchman(
        scope, gateway.spawner, start.clock, lambda: ceiling_of(gateway.config().limits)
    )
    watchman.begin()
    sessions = Sessions(scope.child("sessions"), profiles)
    gateway.tell_config = partial(tell_sessions, sessions)
    sessions.begin()
    if start.recovers:
        _ = Recovery(scope.child("recovery"), sessions).begin()
    return GatewayPorts(
        root=gateway.root,
        sessions=sessions,
        profiles=profiles,
        store=store,
        models=base.models,
        clock=start.clock,
        config=gateway.config,
        watchman=watchman,
        folders=WorkingDirectories(start.cwd),
        instance=gateway.instance,
        started_at=gateway.started_at,
        facts=gateway.facts,
    )


def _boxes(gateway: Gateway) -> Path:
    """Where this gateway makes the folders of its sessions' boxes."""
    return gateway.start.home.root / "boxes" / gateway.instance


async def _open_profile(gateway: Gateway, lent: _Lent, name: str, scope: Scope) -> SessionPorts:
    """Open a profile below `scope`: its configuration, its database, its models."""
    start = gateway.start
    live = await run_in_thread(scope, gateway.follow, name)
    store = await open_store(scope, start.home.profile(name))
    await gateway.hold(store, scope, live())
    return _ports(gateway, scope, store, name, live, lent)


def _ports(
    gateway: Gateway,
    scope: Scope,
    store: Store,
    profile: str,
    config: LiveConfig,
    lent: _Lent,
) -> SessionPorts:
    """What the sessions of one profile are given. What it makes, `scope` owns."""
    start = gateway.start
    home: Home = start.home.profile(profile)
    models = CatalogPicker(
        scope,
        home=home,
        config=config,
        environ=start.environ,
        spawner=gateway.spawner,
        flag=start.model,
        redactor=gateway.redactor,
        elder=lent.elder,
    )
    user_home = Path(start.environ.get("HOME") or "/")
    spill = home.spill.resolve()  # boxes show it at that path
    if gateway.spawner.quotas is not None:
        gateway.spawner.quotas.roots.add(spill)
    machine = Machine(
        user_home,
        start.home.root.resolve(),
        _boxes(gateway),
        spill,
        auto=start.environ.get(ENV_SANDBOX, ""),
        agent=start.environ.get("SSH_AUTH_SOCK", ""),
    )
    mark = gateway.instance.partition("-")[0]
    engine = Engine(
        gateway.spawner, scope.child("containers"), mark, profile, config().sandbox.docker
    )
    rows = ContainerRows(store, start.clock, gateway.instance)
    ContainerWatch(scope, engine, rows).begin()
    sandboxes = Chooser(
        scope, gateway.spawner, machine, lambda: config().sandbox, containers=(engine, rows)
    )
    ports = SessionPorts(
        store=store,
        clock=start.clock,
        config=config,
        live=config,
        models=models,
        tools=Toolbox(Reach(start.environ, _search_keys(home, gateway), browsers=lent.browsers)),
        spawner=gateway.spawner,
        grants=Grants.load(home.grants),
        spill=spill,
        user_home=user_home,
        sandboxes=sandboxes,
        toolservers=_tool_servers(gateway, scope, home, sandboxes, config),
        shelf=Shelf(home.root),
        memories=Memories(store, start.clock, config),
        holder=gateway.instance,
        checkpoints=Checkpoints(
            home.checkpoints, start.clock, lambda: config().checkpoints, (start.home.root,)
        ),
        uploads=Uploads(home.uploads, gateway.spawner),
        private=(start.home.root, start.home.root.resolve()),
        profile=profile,
        memory=gateway.memory,
    )
    Upkeep(scope, home, ports).begin()
    return ports


def _tool_servers(
    gateway: Gateway, scope: Scope, home: Home, sandboxes: Sandboxes, config: LiveConfig
) -> ToolServers:
    """The tool servers of one profile."""
    return ToolServers(
        scope,
        Folders(home.root, home.cache, gateway.start.home.logs),
        sandboxes,
        Network(
            gateway.start.environ,
            home.root / LOGINS,
            lambda: config().web,
            know=gateway.redactor.know,
        ),
        know=gateway.redactor.know,
        output_bytes=lambda: config().limits.tool_output_bytes_max,
    )


def _search_keys(home: Home, gateway: Gateway) -> Callable[[], Mapping[str, str]]:
    """The stored keys of search providers, read when needed; the log learns to hide them."""

    def keys() -> Mapping[str, str]:
        found = Credentials(home.search_keys).load()
        for key in found.values():
            gateway.redactor.know(key)
        return found

    return keys
