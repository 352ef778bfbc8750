"""Finding sessions, and what fills a session's window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tenure.agent.context import Gauge, room
from tenure.conversation import Found
from tenure.protocol.finding import ContextBreakdown, ContextPart
from tenure.sessions.facts import system_of
from tenure.store.base import Sieve, Store
from tenure.store.terms import terms_of

if TYPE_CHECKING:
    from tenure.sessions.actor import Session

FOUND_MAX = 200


async def find_sessions(store: Store, query: str, limit: int, *, only: Sieve) -> Sequence[Found]:
    """Sessions in whose messages the words stand, the best match first.

    Raises:
        BadValue: there is no word in `query`.
        StoreError: the store failed.
    """
    return await store.search(terms_of(query), only=only, limit=max(1, min(limit, FOUND_MAX)))


async def find_others(session: Session, query: str, limit: int) -> Sequence[Found]:
    """As `find_sessions`, in the profile of `session` and without itself: for its agent."""
    return await find_sessions(session.ports.store, query, limit, only=Sieve(apart=session.id))


def breakdown_of(session: Session) -> ContextBreakdown:
    """What fills the window of a session; all zero until its agent is built."""
    agent, spent, gauge = session.agent, session.spent, Gauge()
    history = gauge.messages([row.message for row in session.journal.items])
    system = tools = files = window = 0
    if agent is not None:
        window = agent.model.context_tokens
        files = int(agent.prompt.files_chars / gauge.chars_per_token)
        system = gauge.prefix(system_of(session, agent), ()) - files
        tools = gauge.prefix("", [t.spec for t in (*agent.tools, *session.work.more_tools())])
    parts = {"system": system, "tools": tools, "files": files, "history": history}
    total = sum(parts.values())
    used = spent.context_tokens or total
    return ContextBreakdown(
        model=agent.model.ref if agent else session.wanted,
        categories=[
            ContextPart(name=name, tokens=tokens, percent=_percent(tokens, window))
            for name, tokens in parts.items()
        ],
        estimated_total=total,
        context_used=used,
        context_max=window,
        context_percent=_percent(used, window),
        compaction_at=room(window, total - history) if window else 0,
        cached=spent.usage.cached,
        fresh=max(0, spent.usage.input - spent.usage.cached),
    )


def breakdown_text(shown: ContextBreakdown) -> str:
    """The same in a few lines."""
    window = (
        f" of {shown.context_max:,} ({shown.context_percent:.0f} %)" if shown.context_max else ""
    )
    lines = [f"context   {shown.context_used:,} tokens{window}, model {shown.model}"]
    share = _percent(shown.estimated_total, shown.context_max)
    rows = [(part.name, part.tokens, part.percent) for part in shown.categories]
    rows.append(("together", shown.estimated_total, share))
    lines += [f"{name:<9} {tokens:>9,}  {percent:>5.1f} %" for name, tokens, percent in rows]
    if shown.context_used != shown.estimated_total:
        lines.append("(the parts are estimated; the first line is what the last call counted)")
    lines += [
        f"history is summarized over {shown.compaction_at:,} tokens",
        f"read so far: {shown.fresh:,} tokens fresh, {shown.cached:,} from the provider's cache",
    ]
    return "\n".join(lines)


def _percent(tokens: int, window: int) -> float:
    return round(100 * tokens / window, 1) if window else 0.0
