"""config.*: settings as clients read and change them."""

from __future__ import annotations

import asyncio
from typing import Any

from tenure.errors import BadValue, SessionBusy
from tenure.models.choice import parse_ref
from tenure.protocol import methods as m
from tenure.rpc.handlers.attach import changing
from tenure.rpc.ports import Call
from tenure.sessions.actor import Session
from tenure.sessions.prompts import policy_of, set_policy
from tenure.sessions.state import SessionState
from tenure.store.base import PatchSession

DISPLAY = {
    "busy_input_mode": "queue", "details_mode": "collapsed", "thinking_mode": "collapsed",
    "compact": False, "statusbar": "on", "mouse": False, "skin": "tenure", "streaming": True,
}  # fmt: skip
"""How a terminal client should look; ours to answer, nothing to store."""


async def config_get(  # noqa: PLR0911 - one line a key
    params: m.ConfigGet, call: Call
) -> dict[str, Any]:
    """Read a setting; an unknown key reads as an empty value."""
    gateway = call.gateway
    match params.key:
        case "full":
            return {"config": {"display": DISPLAY, "model": gateway.config().model.default}}
        case "mtime":
            return {"mtime": gateway.started_at}
        case "profile":
            return {"home": str(gateway.folders.default), "display": gateway.profiles.fallback}
        case "project":
            return {"cwd": params.cwd or str(gateway.folders.default), "branch": ""}
        case "provider":
            async with gateway.profiles.using_ports("") as ports:
                options = await ports.models.options()
            return {k: options.get(k) for k in ("model", "provider", "providers")}
        case "prompt":
            return {"prompt": ""}
        case "approval_mode" | "yolo" if params.session_id:
            info = gateway.sessions.get(params.session_id).info()
            yolo = "yes" if info["yolo"] else "ask"
            return {"value": yolo if params.key == "yolo" else info["approval_mode"]}
        case "busy" if params.session_id:
            return {"value": policy_of(gateway.sessions.get(params.session_id))}
        case "busy":
            return {"value": "queue"}
        case _:
            return {"value": DISPLAY.get(params.key, "")}


async def config_set(params: m.ConfigSet, call: Call) -> dict[str, Any]:
    """Change a setting of a session; how a client looks is the client's own."""
    match params.key:
        case "model":
            session = changing(call, params.session_id)
            ref = await switch_model(session, str(params.value or ""))
            return {"key": "model", "value": ref, "scope": "session", "info": session.info()}
        case "yolo" | "approval_mode":
            session = changing(call, params.session_id)
            wanted = str(params.value).lower() in {"1", "on", "true", "yes", "yolo"}
            session.questions.let_pass(f"config.set {params.key}" if wanted else "")
            return {"key": params.key, "value": "yes" if wanted else "ask"}
        case "busy" if params.session_id:
            session = changing(call, params.session_id)
            await set_policy(session, str(params.value))
            return {"key": params.key, "value": policy_of(session)}
        case _:
            return {"key": params.key, "value": params.value}


async def switch_model(session: Session, value: str) -> str:
    """Build the agent anew with another model; history stays. Returns the reference.

    Raises:
        SessionBusy: a turn is running.
        BadValue: no model is named, or its provider is not known; the session keeps its own.
    """
    words = value.split()
    provider = words[words.index("--provider") + 1] if "--provider" in words[:-1] else ""
    plain = [w for w in words if not w.startswith("--") and w != provider]
    if not plain:
        raise BadValue(
            "Name a model, like /model openai:gpt-5-mini; `tenure model list` shows them."
        )
    ref = plain[0] if ":" in plain[0] or not provider else f"{provider}:{plain[0]}"
    parse_ref(ref, session.ports.config())
    rebuild(session, ref)
    await asyncio.shield(session.journal.record([PatchSession(session.id, {"model": ref})]))
    return ref


def rebuild(session: Session, wanted: str | None = None) -> None:
    """Build the agent anew, in the background.

    Args:
        session: whose.
        wanted: another model; None: the one it has.

    Raises:
        SessionBusy: a turn is running, or it is being built.
    """
    if session.current is not None or session.state is SessionState.BUILDING:
        what = "agent" if wanted is None else "model"
        raise SessionBusy(
            f"The {what} cannot change now: session busy ({session.status}); interrupt it or wait."
        )
    session.begin_build(wanted)
