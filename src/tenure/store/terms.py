"""What somebody typed into a search, as words. Pure; the same for every store.

Words are joined by "and"; ``"in quotes"`` is a phrase, a star at the end (``deplo*``) finds every
word that begins so. There is no other syntax, so nothing that can be typed is a syntax error.
"""

from __future__ import annotations

import re

import msgspec

from tenure.errors import BadValue

CHARS_MAX = 1_000
TERMS_MAX = 32
_TERM = re.compile(r'"([^"]*)"(\*?)|([^\s"]+)')
_WORD = re.compile(r"[^\W_]+")


class Term(msgspec.Struct, frozen=True):
    """Words that stand together, in this order; the last may be a beginning only."""

    words: tuple[str, ...]
    prefix: bool = False


def terms_of(text: str) -> tuple[Term, ...]:
    """Read a search.

    Raises:
        BadValue: it has no word in it, or too many.
    """
    if len(text) > CHARS_MAX:
        raise BadValue(f"A search has {CHARS_MAX} characters at the most; use fewer words.")
    terms = []
    for phrase, star, word in _TERM.findall(text):
        words = tuple(_WORD.findall(phrase or word))
        if words:
            terms.append(Term(words, bool(star) or word.endswith("*")))
    if not terms:
        raise BadValue("Search for at least one word (of letters or digits).")
    if len(terms) > TERMS_MAX:
        raise BadValue(f"A search has {TERMS_MAX} words at the most; use fewer.")
    return tuple(terms)
