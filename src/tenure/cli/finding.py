"""`tenure sessions list`, `search`, `pin`, `tag`, `archive`: finding sessions and marking them."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from tenure.cli.attach import Where, attach
from tenure.cli.sessions import id_of
from tenure.errors import BadValue

BOLD, PLAIN = "\x1b[1m", "\x1b[0m"
_UNITS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which sessions are wanted; see `session.list`."""

    tag: str = ""
    pinned: bool = False
    archived: bool = False
    since: float = 0.0
    limit: int = 50


def since_of(text: str, now: datetime) -> float:
    """A time as people write it ("3d", "12h", "2026-01-31"), in wall-clock seconds; "" is 0.

    Raises:
        BadValue: it is none.
    """
    if not text:
        return 0.0
    if match := re.fullmatch(r"(\d{1,6})([mhdw])", text):
        return now.timestamp() - int(match[1]) * _UNITS[match[2]]
    try:
        return datetime.fromisoformat(text).astimezone(now.tzinfo).timestamp()
    except (ValueError, OverflowError):
        raise BadValue(
            f"{text[:40]!r} is no time; write 45m, 12h, 3d, 2w or a date like 2026-01-31."
        ) from None


async def list_sessions(where: Where, wanted: Wanted, *, as_json: bool) -> int:
    """Stored sessions: pinned ones first, then by their last use."""
    async with attach(where) as attached:
        found = await attached.client.call(
            "session.list", profile=where.profile, said=True, **asdict(wanted)
        )
    rows = found["sessions"]
    if as_json:
        _print(rows)
        return 0
    if not rows:
        plain = wanted == Wanted(limit=wanted.limit)
        sys.stderr.write(
            "No sessions yet; `tenure chat` begins one.\n" if plain else "No such sessions.\n"
        )
    for row in rows:
        title = row["title"] or row["preview"] or "(untitled)"
        sys.stdout.write(
            f"{row['id']}  {_day(row['last_active'])}  {row['status']:<7} "
            f"{row['message_count']:>4}  {'* ' if row['pinned'] else ''}{title[:70]}"
            f"{_tags(row['tags'])}\n"
        )
    return 0


async def search_sessions(where: Where, query: str, wanted: Wanted, *, as_json: bool) -> int:
    """Sessions in which words were said; 1 if there are none."""
    async with attach(where) as attached:
        found = await attached.client.call(
            "session.search", query=query, profile=where.profile, **asdict(wanted)
        )
    rows = found["sessions"]
    if as_json:
        _print(rows)
        return 0 if rows else 1
    if not rows:
        sys.stderr.write("Nothing was found; try fewer words, or the beginning of one (begin*).\n")
        return 1
    marks = (BOLD, PLAIN) if sys.stdout.isatty() else ("«", "»")
    for row in rows:
        more = f" (+{row['hits'] - 1})" if row["hits"] > 1 else ""
        title = row["title"] or "(untitled)"
        sys.stdout.write(
            f"{row['session_id']}  {_day(row['used_at'])}  {title[:60]}{_tags(row['tags'])}\n"
            f"    {row['role']}: {marked(row['snippet'], row['marks'], marks)}{more}\n"
        )
    return 0


def marked(snippet: str, spans: list[list[int]], marks: tuple[str, str]) -> str:
    """A snippet with `marks` around what was found, and without control characters. Pure."""
    text, at = "", 0
    for start, end in spans:
        text += f"{_safe(snippet[at:start])}{marks[0]}{_safe(snippet[start:end])}{marks[1]}"
        at = end
    return text + _safe(snippet[at:])


async def mark_session(where: Where, session: str, method: str, **changes: Any) -> int:
    """Pin, tag or archive, and say what the session is marked with then."""
    async with attach(where) as attached:
        session_id = await id_of(attached.client, where.profile, session)
        done = await attached.client.call(
            method, session_id=session_id, profile=where.profile, **changes
        )
    words = [name for name in ("pinned", "archived") if done[name]]
    told = f"{', '.join(words)}{_tags(done['tags'])}".strip() or "no pin, no tag, not archived"
    sys.stderr.write(f"{session_id}: {told}\n")
    return 0


def _day(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s).astimezone().strftime("%Y-%m-%d %H:%M")


def _tags(tags: list[str]) -> str:
    return "".join(f" #{tag}" for tag in tags)


def _safe(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _print(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=1) + "\n")
