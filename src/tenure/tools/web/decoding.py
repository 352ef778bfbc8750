"""Bytes of the web as text. Pure."""

from __future__ import annotations

import codecs
import re

_CODECS_REFUSED = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "utf-7"})
"""Of Python, and of no web page; some take a time that grows with the square of the text."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_META = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)


def decode(body: bytes, content_type: str) -> str:
    """Bytes as text: after their mark, the header, the page's own word, else UTF-8."""
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body.decode(codec, "replace").removeprefix("\ufeff")
    named = re.search(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", content_type, re.IGNORECASE)
    said = _META.search(body[:4096])
    for name in (named and named[1], said and said[1].decode("ascii")):
        if name and (usable := _codec(name)):
            return body.decode(usable, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as exc:
        # cut in the middle of a character; one such byte alone is rather another charset's
        cut = exc.reason == "unexpected end of data" and not body[: exc.start].isascii()
        return body.decode("utf-8" if cut else "cp1252", "replace")


def _codec(name: str) -> str:
    try:
        found = codecs.lookup(name).name
        "".encode(found)
    except LookupError:
        return ""
    if found in _CODECS_REFUSED:
        return ""
    return "cp1252" if found in {"ascii", "iso8859-1"} else found  # as browsers do
