"""Sessions and the configuration: it is looked at between turns, and fixed during one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tenure.config import Config
from tenure.sessions.state import SessionState

if TYPE_CHECKING:
    from tenure.reload import Reload
    from tenure.sessions.actor import Session
    from tenure.sessions.registry import Sessions


def made_from(config: Config) -> tuple[Any, ...]:
    """What of a configuration an agent is made from."""
    return (
        config.model,
        config.providers,
        config.starter,
        config.limits,
        config.web,
        config.browser,
        config.skills,
        config.memory.enabled,
    )


def is_outdated(session: Session) -> bool:
    """Whether a session is between two turns, with an agent of an earlier configuration.

    Looks at the files first.
    """
    if session.state is not SessionState.IDLE:
        return False
    session.ports.look()
    agent = session.agent
    config = session.ports.config()
    if agent is None or agent.config is config:
        return False
    return made_from(agent.config) != made_from(config)


def tell_sessions(sessions: Sessions, profile: str, found: Reload) -> None:
    """Tell everyone who listens to a session of `profile` what became of its configuration."""
    payload = {
        "text": found.text,
        "level": "error" if found.error else "info",
        "kind": "config",
        "key": "config",
    }
    for session in sessions.live():
        if session.ports.profile == profile and session.scope.admits:
            session.journal.transient("notification.show", payload)
