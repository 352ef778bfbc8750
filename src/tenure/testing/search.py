"""Finding sessions in memory: what the full-text index does, for a store that has none."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from tenure.conversation import Found
from tenure.store.base import ItemRow, SessionRow, Sieve
from tenure.store.terms import Term

_WORD = re.compile(r"[^\W_]+")


def lets_through(only: Sieve, row: SessionRow) -> bool:
    """Whether `row` is wanted."""
    return (
        row.archived == only.archived
        and (not only.tag or only.tag in row.tags)
        and (row.pinned or not only.pinned)
        and row.updated_at >= only.since
        and row.id != only.apart
        and (row.said or not only.said)
    )


def found_in(
    items: Mapping[tuple[str, int], ItemRow], rows: Iterable[SessionRow], terms: Sequence[Term]
) -> list[Found]:
    """The sessions among `rows` with an entry in which every term stands."""
    found = []
    for row in rows:
        hits = [
            (item, spans)
            for (sid, _), item in sorted(items.items())
            if sid == row.id and item.kind == "message"
            if all(spans := [spans_of(item.message.text, term) for term in terms])
        ]
        if not hits:
            continue
        item, spans = hits[0]
        found.append(
            Found(
                session_id=row.id,
                title=row.title,
                used_at=row.updated_at,
                seq=item.seq,
                role=item.message.role,
                snippet=item.message.text,
                marks=tuple(sorted(span for each in spans for span in each)),
                hits=len(hits),
                pinned=row.pinned,
                archived=row.archived,
                tags=row.tags,
            )
        )
    return sorted(found, key=lambda one: -one.hits)


def spans_of(text: str, term: Term) -> list[tuple[int, int]]:
    """Where `term` stands in `text`."""
    words = [(_folded(match[0]), match.span()) for match in _WORD.finditer(text)]
    wanted = [_folded(word) for word in term.words]
    spans = []
    for start in range(len(words) - len(wanted) + 1):
        here = words[start : start + len(wanted)]
        whole = [word for word, _ in here]
        if term.prefix and whole[-1].startswith(wanted[-1]):
            whole[-1] = wanted[-1]
        if whole == wanted:
            spans.append((here[0][1][0], here[-1][1][1]))
    return spans


def _folded(word: str) -> str:
    plain = unicodedata.normalize("NFKD", word.casefold())
    return "".join(char for char in plain if not unicodedata.combining(char))
