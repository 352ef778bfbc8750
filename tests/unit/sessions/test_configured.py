"""What a changed configuration is to a session, and who is told of it."""

from __future__ import annotations

from types import SimpleNamespace

from tenure.config import ApprovalsConfig, Config
from tenure.sessions.configured import is_outdated, tell_sessions
from tenure.sessions.state import SessionState


async def test_it_is_told_to_the_live_sessions_of_its_profile(root):
    told: list[str] = []

    def session(name: str, profile: str):
        return SimpleNamespace(
            ports=SimpleNamespace(profile=profile),
            scope=root.child(name),
            journal=SimpleNamespace(transient=lambda kind, payload: told.append(name)),
        )

    mine, others, closing = session("mine", "p"), session("other", "q"), session("closing", "p")
    closing.scope.claim("closed")
    sessions = SimpleNamespace(live=lambda: [mine, others, closing])
    tell_sessions(sessions, "p", SimpleNamespace(text="changed", error=""))
    assert told == ["mine"]


def test_an_agent_is_outdated_by_what_it_is_made_from_alone():
    first = Config()
    session = SimpleNamespace(
        state=SessionState.IDLE,
        agent=SimpleNamespace(config=first),
        ports=SimpleNamespace(look=bool, config=lambda: now),
    )
    now = first
    assert not is_outdated(session)
    now = Config(approvals=ApprovalsConfig(timeout_s=1))
    assert not is_outdated(session)
    now = Config(model="scripted:other")
    assert is_outdated(session)
    session.state = SessionState.RUNNING
    assert not is_outdated(session)
