"""Methods that find sessions and mark them: lists, search, pins, tags, archive, profiles."""

from __future__ import annotations

from typing import Any

import msgspec

from tenure.protocol.params import Empty, ForSession, Params


class StoredSession(ForSession, kw_only=True):
    """Names a live or stored session."""

    profile: str = ""
    """Where it is stored, if it is not live; empty: the gateway's choice."""


class Sieved(Params, kw_only=True):
    """What a list and a search have in common."""

    profile: str = ""
    """Whose sessions; empty: the gateway's choice."""
    tag: str = ""
    pinned: bool = False
    archived: bool = False
    """Archived sessions instead of all others."""
    since: float = 0.0
    """Only those used since then, in wall-clock seconds."""


class SessionList(Sieved, kw_only=True):
    """Params of session.list."""

    limit: int = 200
    said: bool = False
    """Without those in which nothing was ever said and which have neither a name nor a mark."""


class SessionSearch(Sieved, kw_only=True):
    """Params of session.search."""

    query: str
    """Words, all of which must stand in one message; ``"a phrase"``, ``begin*``."""
    limit: int = 20


class FoundSession(msgspec.Struct, kw_only=True):
    """A session that was found, with its best place."""

    session_id: str
    title: str
    used_at: float
    seq: int
    role: str
    snippet: str
    marks: tuple[tuple[int, int], ...]
    """Where in the snippet the words are: beginnings and ends, in characters."""
    hits: int
    pinned: bool
    archived: bool
    tags: tuple[str, ...]


class FoundSessions(msgspec.Struct):
    """Result of session.search, the best match first."""

    sessions: list[FoundSession]


class SessionPin(StoredSession, kw_only=True):
    """Params of session.pin."""

    pinned: bool = True


class SessionArchive(StoredSession, kw_only=True):
    """Params of session.archive."""

    archived: bool = True


class SessionTag(StoredSession, kw_only=True):
    """Params of session.tag."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


class Marks(msgspec.Struct, kw_only=True):
    """What a session is marked with."""

    session_id: str
    pinned: bool
    archived: bool
    tags: tuple[str, ...]


class ContextPart(msgspec.Struct, kw_only=True):
    """One part of what the model is shown."""

    name: str
    """system, tools, files or history."""
    tokens: int
    percent: float
    """Of the window."""


class ContextBreakdown(msgspec.Struct, kw_only=True):
    """Result of session.context_breakdown. Tokens of parts are estimated."""

    model: str
    categories: list[ContextPart]
    estimated_total: int
    context_used: int
    """As the provider counted the last request; the estimate before the first."""
    context_max: int
    context_percent: float
    compaction_at: int
    """History of more tokens than this is summarized."""
    cached: int
    """Input tokens so far that the provider had in its cache."""
    fresh: int
    """Input tokens so far that it had not."""


class ConfigReload(Params, kw_only=True):
    """Params of config.reload."""

    profile: str = ""


class ConfigReloaded(msgspec.Struct, kw_only=True):
    """Result of config.reload."""

    changed: tuple[str, ...]
    """Keys that have another value from the next turns on."""
    waiting: tuple[str, ...]
    """Keys whose new value counts from the next start of the gateway."""
    text: str


class ProfileName(Params, kw_only=True):
    """Params of profile.create and profile.delete."""

    name: str


class ProfileRows(msgspec.Struct):
    """Result of profile.list."""

    profiles: list[dict[str, Any]]


FINDING_METHODS: dict[str, tuple[type[msgspec.Struct], Any, str]] = {
    "session.search": (SessionSearch, FoundSessions, "Sessions in whose messages words stand."),
    "session.pin": (SessionPin, Marks, "Put a session on top of the list, or back."),
    "session.tag": (SessionTag, Marks, "Add and remove tags of a session."),
    "session.archive": (SessionArchive, Marks, "Hide a session from the list, or show it again."),
    "session.context_breakdown": (
        ForSession,
        ContextBreakdown,
        "What fills the model's window, and how far it is to the next summary.",
    ),
    "config.reload": (ConfigReload, ConfigReloaded, "Read the configuration files now."),
    "profile.list": (Empty, ProfileRows, "The profiles of this gateway."),
    "profile.create": (ProfileName, ProfileRows, "Make an empty profile."),
    "profile.delete": (ProfileName, ProfileRows, "Remove a profile that nobody uses, for good."),
}
"""name -> (params, result, about)"""
