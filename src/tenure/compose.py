"""Compose what handlers are given, from adapters. Imported off the loop, after "ready"."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tenure.lifecycle.scope import Scope
from tenure.models.picker import CatalogPicker
from tenure.rpc import connection as _connection
from tenure.rpc.ports import GatewayPorts
from tenure.sessions.grants import Grants
from tenure.sessions.registry import Sessions
from tenure.sessions.resources import SessionPorts
from tenure.store.base import Store
from tenure.tools.registry import tools_for

_ = _connection  # the server takes it from here, already imported

if TYPE_CHECKING:
    from tenure.app import Gateway


async def compose(gateway: Gateway, scope: Scope, store: Store) -> GatewayPorts:
    """Wire everything below `scope`, which owns it."""
    start = gateway.start
    models = CatalogPicker(
        scope,
        home=start.home,
        config=gateway.config,
        environ=start.environ,
        spawner=gateway.spawner,
        flag=start.model,
        redactor=gateway.redactor,
    )
    ports = SessionPorts(
        store=store,
        clock=start.clock,
        config=gateway.config,
        models=models,
        tools=tools_for,
        spawner=gateway.spawner,
        grants=Grants.load(start.home.root / "grants.json"),
        spill=start.home.spill,
        user_home=Path(start.environ.get("HOME") or "/"),
        holder=gateway.instance,
    )
    return GatewayPorts(
        root=gateway.root,
        sessions=Sessions(scope.child("sessions"), ports),
        store=store,
        models=models,
        clock=start.clock,
        config=gateway.config,
        default_cwd=start.cwd,
        instance=gateway.instance,
        started_at=gateway.started_at,
        facts=gateway.facts,
    )
