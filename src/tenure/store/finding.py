"""Finding sessions: the full-text index, and the marks that people set. SQL, as in `statements`.

The index holds no text: `item_texts` is a view of the history, and `texts` gives each entry the
number under which it is indexed. What is put in and what is taken out are read through that one
view, so they cannot differ; both happen in the write that adds or removes the entry itself.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from tenure.conversation import Found, Message, Role
from tenure.errors import BadValue
from tenure.store import base as b
from tenure.store.schema import sessions
from tenure.store.terms import Term
from tenure.store.unused import said

MATCHES_MAX = 1_000
"""Entries that are ranked; a search that matches more is told by its best ones."""
SEARCH_S = 5.0
STEPS_BETWEEN = 20_000
"""Steps of the database's machine between two looks at the clock."""
SNIPPET_TOKENS = 24
_OPEN, _CLOSE = "\x02", "\x03"
_NUMBER = "INSERT INTO texts (session_id, seq) VALUES (?, ?)"
_INDEX = """\
INSERT INTO search (rowid, text) SELECT id, text FROM item_texts WHERE id = last_insert_rowid()"""
_UNINDEX = (
    "INSERT INTO search (search, rowid, text) "
    "SELECT 'delete', id, text FROM item_texts WHERE session_id = ? AND seq >= ?"
)
_UNNUMBER = "DELETE FROM texts WHERE session_id = ? AND seq >= ?"
_MATCHES = """
SELECT s.*, t.seq AS seq, t.id AS number, bm25(search) AS score
FROM search JOIN texts t ON t.id = search.rowid JOIN sessions s ON s.id = t.session_id
WHERE search MATCH :match
  AND (:tag = '' OR instr(s.tags, ' ' || :tag || ' ') > 0)
  AND (:pinned = 0 OR s.pinned = 1) AND s.archived = :archived
  AND s.updated_at >= :since AND s.id <> :apart
ORDER BY score, s.updated_at DESC LIMIT :most
"""
# The plus lets the index be asked once, not once for each number.
_SNIPPETS = """
SELECT search.rowid AS number, json_extract(CAST(i.message AS TEXT), '$.role') AS role,
  snippet(search, 0, :open, :close, '…', :tokens) AS snippet
FROM search JOIN texts t ON t.id = search.rowid
JOIN items i ON i.session_id = t.session_id AND i.seq = t.seq
WHERE search MATCH :match AND +search.rowid IN ({numbers})
"""


# --- the index --------------------------------------------------------------------------------


def index_item(db: Connection, session_id: str, seq: int, message: Message) -> None:
    """Let an entry that was just added be found."""
    if message.text:
        db.exec_driver_sql(_NUMBER, (session_id, seq))
        db.exec_driver_sql(_INDEX)


def unindex_items(db: Connection, session_id: str, first: int = 0) -> None:
    """Let the entries from number `first` on be found no more; before they are removed."""
    db.exec_driver_sql(_UNINDEX, (session_id, first))
    db.exec_driver_sql(_UNNUMBER, (session_id, first))


# --- marks ------------------------------------------------------------------------------------


def tag_session(db: Connection, op: b.TagSession) -> tuple[str, ...] | None:
    """Add and remove tags in one step."""
    one = sessions.c.id == op.id
    found = db.execute(sa.select(sessions.c.tags).where(one)).scalar()
    if found is None:
        return None
    tags = b.with_tags(found.split(), op)
    db.execute(sa.update(sessions).where(one).values(tags=stored_tags(tags)))
    return tags


def stored_tags(tags: Sequence[str]) -> str:
    """As the column has them: each between blanks, so that it can be searched for whole."""
    return f" {' '.join(tags)} " if tags else ""


# --- reads ------------------------------------------------------------------------------------


def sieved(query: sa.Select[Any], only: b.Sieve) -> sa.Select[Any]:
    """`query` of sessions with what `only` lets through, pinned ones first."""
    query = query.where(sessions.c.archived == int(only.archived))
    if only.tag:
        query = query.where(sa.func.instr(sessions.c.tags, f" {only.tag} ") > 0)
    if only.pinned:
        query = query.where(sessions.c.pinned == 1)
    if only.said:
        query = query.where(said())
    return query.where(sessions.c.updated_at >= only.since, sessions.c.id != only.apart)


def search(db: Connection, terms: Sequence[Term], only: b.Sieve, limit: int) -> list[Found]:
    """One row a session, the best match first, with a snippet of its best entry.

    Raises:
        BadValue: it takes longer than `SEARCH_S`.
    """
    match = " AND ".join(map(_matching, terms))
    values = {
        "match": match, "tag": only.tag, "pinned": int(only.pinned), "since": only.since,
        "archived": int(only.archived), "apart": only.apart, "most": MATCHES_MAX,
    }  # fmt: skip
    best: dict[str, Any] = {}
    hits: dict[str, int] = {}
    with _bounded(db):
        for row in db.execute(sa.text(_MATCHES), values).mappings():
            hits[row["id"]] = hits.get(row["id"], 0) + 1
            best.setdefault(row["id"], row)
        chosen = list(best.values())[:limit]
        shown = _snippets(db, match, [row["number"] for row in chosen])
    return [_found(row, hits[row["id"]], *shown[row["number"]]) for row in chosen]


@contextmanager
def _bounded(db: Connection) -> Iterator[None]:
    """Give a search up that would keep a reader for long."""
    raw = db.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    until = time.monotonic() + SEARCH_S
    raw.set_progress_handler(lambda: int(time.monotonic() > until), STEPS_BETWEEN)
    try:
        yield
    except sa.exc.OperationalError:
        if time.monotonic() <= until:
            raise
        raise BadValue(
            f"The search was given up after {SEARCH_S:.0f} seconds; use more words, or longer ones."
        ) from None
    finally:
        raw.set_progress_handler(None, 0)


def _matching(term: Term) -> str:
    """One term in the index's own syntax; everything is quoted, so nothing else is."""
    return f'"{" ".join(term.words)}"{"*" if term.prefix else ""}'


def _snippets(
    db: Connection, match: str, numbers: Sequence[int]
) -> dict[int, tuple[Role, str, list[tuple[int, int]]]]:
    query = sa.text(_SNIPPETS.format(numbers=", ".join(map(str, numbers)) or "NULL"))
    values = {"match": match, "open": _OPEN, "close": _CLOSE, "tokens": SNIPPET_TOKENS}
    return {
        row["number"]: (row["role"], *marked(row["snippet"]))
        for row in db.execute(query, values).mappings()
    }


def marked(text: str) -> tuple[str, list[tuple[int, int]]]:
    """A snippet without its marks, on one line, and where they were: beginnings and ends."""
    shown, marks = "", list[tuple[int, int]]()
    for piece, is_marked in _pieces(" ".join(text.split())):
        if is_marked:
            marks.append((len(shown), len(shown) + len(piece)))
        shown += piece
    return shown, marks


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    for part in text.split(_OPEN):
        inside, close, after = part.partition(_CLOSE)
        if close:
            yield inside, True
            yield after, False
        else:
            yield part, False


def _found(row: Any, hits: int, role: Role, snippet: str, marks: list[tuple[int, int]]) -> Found:
    return Found(
        session_id=row["id"],
        title=row["title"],
        used_at=row["updated_at"],
        seq=row["seq"],
        role=role,
        snippet=snippet,
        marks=tuple(marks),
        hits=hits,
        pinned=bool(row["pinned"]),
        archived=bool(row["archived"]),
        tags=tuple(row["tags"].split()),
    )
