"""setup.*, model.*, tools.*: what could serve, and what a session has."""

from __future__ import annotations

from typing import Any

from tenure.protocol import methods as m
from tenure.rpc.ports import Call
from tenure.tools.base import Tool


async def setup_status(params: m.Empty, call: Call) -> dict[str, Any]:
    """Whether some model can serve; the starter counts."""
    del params
    async with call.gateway.profiles.using_ports("") as ports:
        ok, _ref, reason = await ports.models.ready()
    return {"provider_configured": ok, "reason": reason}


async def setup_runtime_check(params: m.Empty, call: Call) -> dict[str, Any]:
    """Which model would serve, and why."""
    del params
    async with call.gateway.profiles.using_ports("") as ports:
        ok, ref, reason = await ports.models.ready()
    provider, _, name = ref.partition(":")
    return {"ok": ok, "provider": provider, "model": name, "source": reason}


async def model_options(params: m.ModelOptions, call: Call) -> dict[str, Any]:
    """Providers and models to choose from; "current" means the session's, if one is named."""
    session = next((s for s in call.gateway.sessions.live() if s.id == params.session_id), None)
    profile = session.ports.profile if session else ""
    async with call.gateway.profiles.using_ports(profile) as ports:
        options = await ports.models.options()
    if session is None or session.agent is None:
        return options
    return with_current(options, session.agent.model.ref)


def with_current(options: dict[str, Any], ref: str) -> dict[str, Any]:
    """The options with `ref` as the current model, listed even if it was named by hand. Pure."""
    provider, _, name = ref.partition(":")
    rows = [{**row, "is_current": row["slug"] == provider} for row in options["providers"]]
    current = next((row for row in rows if row["is_current"]), None)
    if current is None:
        rows.insert(0, {"slug": provider, "name": provider, "models": [name], "total_models": 1,
                        "is_current": True, "is_user_defined": False, "source": "in use",
                        "authenticated": True})  # fmt: skip
    elif name not in current["models"]:
        current["models"] = [name, *current["models"]]
        current["total_models"] = len(current["models"])
    return {**options, "providers": rows, "provider": provider, "model": name}


async def tools_list(params: m.MaybeSession, call: Call) -> dict[str, Any]:
    """The session's tools."""
    session = call.gateway.sessions.get(params.session_id)
    sets = {"default": session.agent.tools if session.agent else ()}
    if lent := session.work.server_tools():
        sets["mcp"] = lent
    rows = [{"name": name, "enabled": True, "tools": _rows(tools)} for name, tools in sets.items()]
    return {"toolsets": rows}


def _rows(tools: tuple[Tool, ...]) -> list[dict[str, str]]:
    return [
        {"name": t.name, "description": t.spec.description, "effect": str(t.effect)} for t in tools
    ]
