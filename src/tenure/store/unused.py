"""Which sessions nobody has used for long, or ever; as queries of their ids."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from tenure.store.schema import ends, sessions, turns


def said() -> sa.ColumnElement[bool]:
    """That something was said in a session, or that it was given a name or a mark."""
    kept = (sessions.c.message_count > 0, sessions.c.pinned == 1)
    return sa.or_(*kept, *(sessions.c[name] != "" for name in ("title", "preview", "tags")))


def unused_since(before: float, status: tuple[str, ...] = ("closed",)) -> sa.Select[Any]:
    """Ids of sessions that were not used since `before`, the longest unused first.

    One with prompts that wait for the next start is in use, and so is one whose end is still to be
    told to a hook.
    """
    unused = sa.and_(sessions.c.status.in_(status), sessions.c.updated_at < before)
    waits = sa.exists().where(turns.c.session_id == sessions.c.id, turns.c.state == "queued")
    told = sa.exists().where(ends.c.session_id == sessions.c.id)
    return sa.select(sessions.c.id).where(unused, ~waits, ~told).order_by(sessions.c.updated_at)


def prunable(before: float, *, empty: bool) -> sa.Select[Any]:
    """Ids of sessions that may go; with `empty` of those in which nothing was ever said."""
    if empty:
        return unused_since(before, ("closed", "idle")).where(~said())
    return unused_since(before).where(sessions.c.pinned == sa.literal_column("0"))
