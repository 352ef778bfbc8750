"""What clients are told of a session: the payload of session.info."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tenure import __version__

if TYPE_CHECKING:
    from tenure.sessions.actor import Session


def session_info(session: Session) -> dict[str, Any]:
    """The facts of a session as they are now. `lazy`: there is no agent yet."""
    agent = session.agent
    mode = "yes" if session.questions.auto_approve else "ask"
    facts: dict[str, Any] = {
        "model": agent.model.ref if agent else session.wanted,
        "model_reason": agent.reason if agent else "",
        "provider": agent.model.ref.partition(":")[0] if agent else "",
        "tools": {"default": [tool.name for tool in agent.tools]} if agent else {},
        "skills": {},
        "cwd": session.cwd,
        "instructions": list(agent.prompt.sources) if agent else [],
        "title": session.title,
        "stored_session_id": session.id,
        "running": session.current is not None,
        "status": session.status,
        "queued": session.queued,
        "approval_mode": mode if session.questions.interactive else f"{mode} (nobody to ask)",
        "yolo": session.questions.auto_approve,
        "usage": session.usage(),
        "version": __version__,
        "profile_name": session.ports.profile,
        "desktop_contract": 4,
        "lazy": agent is None,
        "mcp_servers": [],
    }
    if session.build_error is not None:
        facts["credential_warning"] = session.build_error.message
    return facts
