"""What clients are told of a session: the payload of session.info, and a line of a list."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any

from tenure import __version__
from tenure.agent.prompt import title_of
from tenure.sessions.planning import ABOUT, plan_of
from tenure.sessions.prompts import policy_of
from tenure.sessions.recovery import GO_ON
from tenure.sessions.setting import keep_setting
from tenure.skills.shelf import waiting
from tenure.store.base import PatchSession, SessionRow
from tenure.tools.base import TodoItem, Tool
from tenure.tools.memory import MEMORY_TOOL
from tenure.tools.todo import TODO, row

if TYPE_CHECKING:
    from tenure.sessions.actor import Session
    from tenure.sessions.resources import Agent
    from tenure.sessions.turns import LiveTurn

PREVIEW_CHARS = 80
TITLE_CHARS_MAX = 200
WARNINGS_MAX = 5
"""Of the files that configure a session, at one time."""


def session_info(session: Session) -> dict[str, Any]:
    """The facts of a session as they are now. `lazy`: there is no agent yet."""
    agent = session.agent
    servers = session.work.servers
    names = servers.names() if servers else {}
    mode = "yes" if session.questions.bypass else "auto" if session.work.confined else "ask"
    facts: dict[str, Any] = {
        "model": agent.model.ref if agent else session.wanted,
        "model_reason": agent.reason if agent else "",
        "provider": agent.model.ref.partition(":")[0] if agent else "",
        "tools": {"default": list(_names(agent.tools)), **names} if agent else {},
        "skills": _skills(agent),
        "cwd": session.cwd,
        "instructions": list(agent.prompt.sources) if agent else [],
        "title": session.title,
        "stored_session_id": session.id,
        "running": session.current is not None,
        "status": session.status,
        "queued": session.queued,
        "busy": policy_of(session),
        "approval_mode": mode if session.questions.interactive else f"{mode} (nobody to ask)",
        "approval_source": session.questions.bypass,
        "sandbox": session.work.shown(),
        "yolo": bool(session.questions.bypass),
        "usage": session.usage(),
        "version": __version__,
        "profile_name": session.ports.profile,
        "desktop_contract": 4,
        "lazy": agent is None,
        "todo": session.settings.get(TODO, []),
        "plan": _plan(session),
        "mcp_servers": servers.rows() if servers else [],
    }
    live = session.ports.live.error if session.ports.live is not None else ""
    skills = waiting(agent.prompt.skills) if agent else ""
    wrong = [text for text in (live, skills, *(servers.warnings if servers else ())) if text]
    if wrong:
        facts["config_warning"] = " ".join(wrong[:WARNINGS_MAX])
    if session.draft:
        facts["draft"] = [upload.about for upload in session.draft]
    if session.notice:
        facts["notice"] = session.notice
    if session.build_error is not None:
        facts["credential_warning"] = session.build_error.message
    return facts


@functools.lru_cache(maxsize=64)
def _names(tools: tuple[Tool, ...]) -> tuple[str, ...]:
    return tuple(tool.name for tool in tools)


def _skills(agent: Agent | None) -> dict[str, list[str]]:
    """Names of the skills that count, by whose they are."""
    found: dict[str, list[str]] = {}
    for skill in agent.prompt.skills if agent else ():
        if not skill.problem:
            found.setdefault(skill.source, []).append(skill.name)
    return found


def _plan(session: Session) -> dict[str, Any]:
    """Without its text, which may be long."""
    plan = plan_of(session)
    return {"on": plan.on, "revision": plan.revision, "approved_at": plan.approved_at}


def system_of(session: Session, agent: Agent) -> str:
    """The agent's own text, what counts of the profile's notes now, and the session's mode."""
    memories = session.ports.memories if MEMORY_TOOL in agent.tools else None
    remembered = memories.text if memories is not None else ""
    return agent.prompt.text + remembered + (ABOUT if session.work.planning else "")


def first_words(session: Session, turn: LiveTurn, now: float) -> dict[str, Any]:
    """Preview and title from a session's first prompt; what changes in its row when a turn runs."""
    changes: dict[str, Any] = {"updated_at": now}
    if turn.prompt != GO_ON:
        session.notice = ""
    if not session.preview:
        session.preview = " ".join(turn.prompt.split())[:PREVIEW_CHARS]
        changes["preview"] = session.preview
    if not session.title:
        session.title = title_of(turn.prompt)
        changes["title"] = session.title
    turn.named = {name: changes[name] for name in ("preview", "title") if name in changes}
    return changes


def unname(session: Session, turn: LiveTurn) -> None:
    """Take back what `first_words` showed of a prompt whose start was not stored."""
    for name, shown in turn.named.items():
        if getattr(session, name) == shown:
            setattr(session, name, "")


def title_in(text: str) -> str:
    """A title that a person gave: one line, of 200 characters at the most."""
    return " ".join(text.split())[:TITLE_CHARS_MAX]


async def retitle(session: Session, title: str) -> None:
    """Give a session another title. Returns after the commit; a requester that left stops nothing.

    Raises:
        StoreError: it keeps the one that it had.
    """
    told = ("session.title", {"session_id": session.id, "title": title})
    before, session.title = session.title, title  # at once: a first prompt names it otherwise
    commit = session.journal.record([PatchSession(session.id, {"title": title})], [told])

    def check(done: asyncio.Future[list[Any]]) -> None:
        if (done.cancelled() or done.exception()) and session.title == title:
            session.title = before

    commit.add_done_callback(check)
    await asyncio.shield(commit)


def summary_of(row: SessionRow) -> dict[str, Any]:
    """A stored session as a line of a list."""
    return {
        "id": row.id,
        "title": row.title,
        "preview": row.preview,
        "started_at": row.created_at,
        "last_active": row.updated_at,
        "message_count": row.message_count,
        "source": row.source,
        "status": row.status,
        "reason": row.reason,
        "model": row.model,
        "cwd": row.cwd,
        "pinned": row.pinned,
        "archived": row.archived,
        "tags": row.tags,
    }


async def keep_todo(session: Session, items: tuple[TodoItem, ...]) -> None:
    """Store the agent's list of steps and show it. Returns after the commit.

    Raises:
        StoreError: the session keeps the one that it had.
    """
    rows = [row(item) for item in items]
    await keep_setting(session, TODO, rows, ("todo.changed", {"items": rows}))
