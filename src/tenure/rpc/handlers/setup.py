"""setup.*, model.*, tools.*: what could serve, and what a session has."""

from __future__ import annotations

from typing import Any

from tenure.protocol import methods as m
from tenure.rpc.ports import Call


async def setup_status(params: m.Empty, call: Call) -> dict[str, Any]:
    """Whether some model can serve; the starter counts."""
    del params
    ok, _ref, reason = await call.gateway.models.ready()
    return {"provider_configured": ok, "reason": reason}


async def setup_runtime_check(params: m.Empty, call: Call) -> dict[str, Any]:
    """Which model would serve, and why."""
    del params
    ok, ref, reason = await call.gateway.models.ready()
    provider, _, name = ref.partition(":")
    return {"ok": ok, "provider": provider, "model": name, "source": reason}


async def model_options(params: m.ModelOptions, call: Call) -> dict[str, Any]:
    """Providers and models to choose from."""
    options = await call.gateway.models.options()
    session = next((s for s in call.gateway.sessions.live() if s.id == params.session_id), None)
    if session is not None and session.agent is not None:
        provider, _, name = session.agent.model.ref.partition(":")
        options = {**options, "provider": provider, "model": name}
    return options


async def tools_list(params: m.MaybeSession, call: Call) -> dict[str, Any]:
    """The session's tools."""
    agent = call.gateway.sessions.get(params.session_id).agent
    tools = agent.tools if agent else ()
    rows = [
        {"name": t.name, "description": t.spec.description, "effect": str(t.effect)} for t in tools
    ]
    return {"toolsets": [{"name": "default", "enabled": True, "tools": rows}]}
