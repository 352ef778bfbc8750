"""Every method: its params, its result and one line about it. The schema and docs come from here.

Names and shapes are a superset of what a widely used terminal client speaks. Unknown members are
ignored, so an older gateway serves a newer client.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tenure.protocol.census import CENSUS_METHODS
from tenure.protocol.checkpoints import CHECKPOINT_METHODS
from tenure.protocol.delegation import DELEGATION_METHODS
from tenure.protocol.finding import (
    FINDING_METHODS,
    SessionList as SessionList,  # noqa: PLC0414 - a name of this module too
    StoredSession as StoredSession,  # noqa: PLC0414 - a name of this module too
)
from tenure.protocol.memories import MEMORY_METHODS
from tenure.protocol.params import (
    Empty as Empty,  # noqa: PLC0414 - a name of this module too
    ForSession as ForSession,  # noqa: PLC0414 - a name of this module too
    MaybeSession as MaybeSession,  # noqa: PLC0414 - a name of this module too
    Params as Params,  # noqa: PLC0414 - a name of this module too
)
from tenure.protocol.plans import PLAN_METHODS
from tenure.protocol.prompts import (
    PROMPT_METHODS,
    Branched as Branched,  # noqa: PLC0414 - a name of this module too
    BranchOff as BranchOff,  # noqa: PLC0414 - a name of this module too
    Compress as Compress,  # noqa: PLC0414 - a name of this module too
    PromptEdit as PromptEdit,  # noqa: PLC0414 - a name of this module too
    PromptSubmit as PromptSubmit,  # noqa: PLC0414 - a name of this module too
    QueueEdit as QueueEdit,  # noqa: PLC0414 - a name of this module too
    QueueRemove as QueueRemove,  # noqa: PLC0414 - a name of this module too
    QueueRows as QueueRows,  # noqa: PLC0414 - a name of this module too
    Receipt as Receipt,  # noqa: PLC0414 - a name of this module too
    Steer as Steer,  # noqa: PLC0414 - a name of this module too
    Steered as Steered,  # noqa: PLC0414 - a name of this module too
    Undo as Undo,  # noqa: PLC0414 - a name of this module too
    Undone as Undone,  # noqa: PLC0414 - a name of this module too
)
from tenure.protocol.questions import QUESTION_METHODS
from tenure.protocol.skills import SKILL_METHODS
from tenure.protocol.terminals import TERMINAL_METHODS
from tenure.protocol.trees import TREE_METHODS
from tenure.protocol.uploads import UPLOAD_METHODS

# --- sessions ---------------------------------------------------------------------------------


class SessionCreate(Params, kw_only=True):
    """Params of session.create."""

    cols: int = 80
    cwd: str = ""
    """Working directory; absolute. Empty: the gateway's own."""
    title: str = ""
    model: str = ""
    """``provider:name``; empty: chosen by the gateway, the reason stands in ``session.info``."""
    provider: str = ""
    source: str = "client"
    close_on_disconnect: bool = False
    auto_approve: bool = False
    """Allow what would be asked (``--yes``); rules that deny still deny."""
    interactive: bool = True
    """Whether somebody can answer questions; otherwise an ask is a deny at once."""
    messages: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """A history to begin with: ``[{role, content}]``."""
    sandbox: Literal["", "auto", "local", "bubblewrap", "docker", "ssh"] = ""
    """Where its commands run, for as long as it is kept; empty: what the configuration says."""
    plan: bool = False
    """Begin in plan mode: nothing may be changed until the agent's plan is approved."""
    profile: str = ""
    """Where it is stored, and whose model and grants it has. Empty: the gateway's choice."""


class SessionOpened(msgspec.Struct, kw_only=True):
    """Result of session.create."""

    session_id: str
    stored_session_id: str
    message_count: int
    messages: list[dict[str, Any]]
    info: dict[str, Any]


class Cursor(msgspec.Struct, kw_only=True):
    """The last event that a client has applied; means something in its session and epoch only."""

    epoch: int
    seq: int


class SessionResume(Params, kw_only=True):
    """Params of session.resume and session.attach."""

    session_id: str
    """The id, or an exact title."""
    cols: int = 80
    role: Literal["owner", "viewer"] = "owner"
    """A viewer watches; it can neither change nor end the session."""
    cursor: Cursor | None = None
    """Send exactly the events after this one, or say that there is a gap and send a snapshot. It is
    taken at its word: an older one brings again what this connection has had before."""
    lazy: bool = False
    """Open a stored session without an agent; the first prompt builds it."""
    eager_build: bool = False
    """Answer when the agent is there. Otherwise the answer comes first (deferred)."""
    omit_messages: bool = False
    """Leave the history out of the answer."""
    close_on_disconnect: bool = False
    """Close the session when this connection goes, unless another owner listens."""
    auto_approve: bool | None = None
    """Allow what would be asked. None: as it is, and no for a session that is opened now."""
    interactive: bool | None = None
    """Whether somebody can answer questions. None: as it is, and yes for one opened now."""
    profile: str = ""
    """Where it is stored. Empty: where it is live, else the gateway's choice."""


class SessionDetach(ForSession, kw_only=True):
    """Params of session.detach."""

    attachment: int = 0
    """Which attachment is meant, as its answer named it; a late detach of another does nothing."""


class Detached(msgspec.Struct):
    """Result of session.detach."""

    detached: bool


class Replay(msgspec.Struct, kw_only=True):
    """What a cursor led to."""

    gap: bool
    """True: the answer holds a snapshot, which replaces what the client shows."""
    reason: str = ""
    """Why there is a gap."""
    events: int = 0
    """Missed events that follow this answer."""


class SessionResumed(msgspec.Struct, kw_only=True):
    """Result of session.resume, session.attach and session.activate: a snapshot at (epoch, seq)."""

    session_id: str
    stored_session_id: str
    session_key: str
    resumed: str
    message_count: int
    messages: list[dict[str, Any]]
    info: dict[str, Any]
    running: bool
    status: str
    started_at: float
    inflight: dict[str, Any] | None = None
    epoch: int = 0
    seq: int = 0
    pending_approval: dict[str, Any] | None = None
    pending_questions: list[dict[str, Any]] = []
    """All questions that wait, the one on show first: ``kind`` and the payload of its request."""
    messages_omitted: int = 0
    """Earlier messages that did not fit into the answer; session.history has them."""
    attachment: int = 0
    """This attachment, for session.detach."""
    role: str = "owner"
    replay: Replay | None = None
    """None without a cursor."""


class SessionRows(msgspec.Struct):
    """Result of session.list and session.active_list."""

    sessions: list[dict[str, Any]]


class ActiveList(Params, kw_only=True):
    """Params of session.active_list, which shows the sessions of all profiles."""

    current_session_id: str | None = None


class MostRecent(msgspec.Struct, kw_only=True):
    """Result of session.most_recent."""

    session_id: str | None
    title: str = ""
    started_at: float = 0.0
    source: str = ""


class SessionHistory(StoredSession, kw_only=True):
    """Params of session.history."""

    before: int = 0
    """Only messages before this entry (``seq``); 0 for the newest."""


class Messages(msgspec.Struct):
    """Result of session.history: the newest messages that fit into one answer."""

    count: int
    messages: list[dict[str, Any]]
    omitted: int = 0
    """Earlier ones; ask again with ``before`` the first one here."""


class SessionTitle(ForSession, kw_only=True):
    """Params of session.title; without ``title`` it reads."""

    title: str | None = None


class Title(msgspec.Struct):
    """Result of session.title."""

    title: str
    session_key: str
    pending: bool = False


class Closed(msgspec.Struct):
    """Result of session.close."""

    closed: bool


class Deleted(msgspec.Struct):
    """Result of session.delete: the id."""

    deleted: str


class Status(msgspec.Struct):
    """A state in one word."""

    status: str


class Output(msgspec.Struct):
    """Text for a person."""

    output: str


class EventsSince(ForSession, kw_only=True):
    """Params of session.events.since."""

    last_seen: int = 0
    epoch: int = 0
    """0: the current one."""
    limit: int = 1000


class Events(msgspec.Struct, kw_only=True):
    """Result of session.events.since."""

    events: list[dict[str, Any]]
    count: int
    epoch: int
    latest_seq: int
    more: bool = False
    """There are further events; ask again from the last one."""
    truncated: bool = False
    """The cursor cannot be served: there is a gap, and the snapshot replaces what is shown."""
    reason: str = ""
    snapshot: dict[str, Any] | None = None
    """Status, messages and open questions as they are now, if `truncated`."""


# --- questions --------------------------------------------------------------------------------


class ApprovalRespond(ForSession, kw_only=True):
    """Params of approval.respond. Without ``request_id`` it answers the one that is shown."""

    choice: str
    request_id: str = ""
    all: bool = False


class Resolved(msgspec.Struct):
    """How many questions were decided."""

    resolved: int


# --- the rest ---------------------------------------------------------------------------------


class ConfigGet(MaybeSession, kw_only=True):
    """Params of config.get."""

    key: str
    cwd: str = ""


class ConfigSet(MaybeSession, kw_only=True):
    """Params of config.set."""

    key: str
    value: Any = None
    scope: str = ""


class ModelOptions(MaybeSession, kw_only=True):
    """Params of model.options."""

    refresh: bool = False


class DetectDrop(MaybeSession, kw_only=True):
    """Params of input.detect_drop."""

    text: str = ""


class CompleteSlash(MaybeSession, kw_only=True):
    """Params of complete.slash."""

    text: str = ""


class CompletePath(MaybeSession, kw_only=True):
    """Params of complete.path."""

    word: str = ""
    cwd: str = ""


class Items(msgspec.Struct, omit_defaults=True):
    """Completions."""

    items: list[dict[str, str]]
    replace_from: int = 0


class Collapse(Params, kw_only=True):
    """Params of paste.collapse."""

    text: str


class SlashExec(MaybeSession, kw_only=True):
    """Params of slash.exec."""

    command: str


class Dispatch(MaybeSession, kw_only=True):
    """Params of command.dispatch."""

    name: str
    arg: str = ""


Anything = dict[str, Any]

METHODS: dict[str, tuple[type[msgspec.Struct], Any, str]] = {
    "session.create": (
        SessionCreate,
        SessionOpened,
        "Open a new session; its agent is built after.",
    ),
    "session.resume": (SessionResume, SessionResumed, "Attach to a live or stored session."),
    "session.attach": (
        SessionResume,
        SessionResumed,
        "As session.resume: listen to a session, from a cursor if one is given.",
    ),
    "session.detach": (SessionDetach, Detached, "Stop listening; the session goes on."),
    "session.activate": (ForSession, SessionResumed, "Attach to a live session."),
    "session.list": (SessionList, SessionRows, "Stored sessions, newest use first."),
    "session.active_list": (ActiveList, SessionRows, "Live sessions."),
    "session.most_recent": (Empty, MostRecent, "The session used last."),
    "session.history": (SessionHistory, Messages, "The newest messages of a session, that fit."),
    "session.title": (SessionTitle, Title, "Read or set the title."),
    "session.status": (ForSession, Output, "The session in a few lines."),
    "session.usage": (ForSession, Anything, "Token counters."),
    "session.interrupt": (ForSession, Status, "End the running turn, keep the session."),
    "session.close": (StoredSession, Closed, "End a session, loaded or not; keep its history."),
    "session.delete": (StoredSession, Deleted, "Remove a session with its history."),
    "session.events.since": (EventsSince, Events, "Durable events after a cursor."),
    "approval.respond": (ApprovalRespond, Resolved, "Answer a question."),
    "config.get": (ConfigGet, Anything, "Read a setting."),
    "config.set": (ConfigSet, Anything, "Change a setting of a session."),
    "model.options": (ModelOptions, Anything, "Providers and models to choose from."),
    "setup.status": (Empty, Anything, "Whether a model can serve."),
    "setup.runtime_check": (Empty, Anything, "Which model would serve, and why."),
    "commands.catalog": (Empty, Anything, "The slash commands."),
    "slash.exec": (SlashExec, Output, "Run a slash command; its text."),
    "command.dispatch": (Dispatch, Anything, "Run a slash command by name."),
    "complete.slash": (CompleteSlash, Items, "Completions of a slash command."),
    "complete.path": (CompletePath, Items, "Completions of a path."),
    "input.detect_drop": (DetectDrop, Anything, "Whether pasted text is a file's path."),
    "paste.collapse": (Collapse, Anything, "A placeholder for a long paste."),
    "process.stop": (MaybeSession, Anything, "Stop the session's background processes."),
    "process.list": (MaybeSession, Anything, "The session's background processes."),
    "tools.list": (MaybeSession, Anything, "The session's tools."),
    **PROMPT_METHODS,
    **CHECKPOINT_METHODS,
    **FINDING_METHODS,
    **QUESTION_METHODS,
    **PLAN_METHODS,
    **MEMORY_METHODS,
    **SKILL_METHODS,
    **TERMINAL_METHODS,
    **DELEGATION_METHODS,
    **UPLOAD_METHODS,
    **TREE_METHODS,
    **CENSUS_METHODS,
    "gateway.info": (Empty, Anything, "Version, instance, uptime, limits."),
}
"""name -> (params, result, about)"""

_ABSENT = {"ok": False, "available": False, "logged_in": False, "error": "not part of Tenure"}
DISABLED: dict[str, Anything] = {
    "billing.state": _ABSENT,
    "usage.bars": _ABSENT,
    "subscription.state": _ABSENT,
    "voice.toggle": {"enabled": False, "tts": False},
    "voice.record": {"status": "disabled"},
    "voice.tts": {"status": "disabled"},
    "pet.info": {"enabled": False},
    "pet.info.meta": {"enabled": False},
    "pet.cells": {"enabled": False},
    "pet.gallery": {"enabled": False, "active": "", "pets": []},
    "verification.status": {"verification": None},
    "agents.list": {"processes": []},
    "plugins.list": {"plugins": []},
    "cron.manage": {"jobs": []},
    "insights.get": {"days": 0, "sessions": 0, "messages": 0},
    "project.facts": {"facts": {}},
    "projects.list": {"projects": []},
    "projects.for_cwd": {"project": None},
}  # fmt: skip
"""Cosmetic methods of that client, answered with their disabled form."""

DISABLED_PREFIXES = ("pet.", "voice.", "billing.", "learning.", "subscription.")
"""Whole families of the same kind: an empty object."""
