"""What a page says, as text: its main part without menus, scripts and what is hidden.

Pure, and run in a child (`main`): a page may be made so that reading it takes an hour or all
memory, and a parser in C cannot be stopped in a thread. The tree is built by lexbor, which reads
HTML as browsers do, however broken.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from collections.abc import Iterator
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

from tenure.errors import ToolError
from tenure.net.urls import Url, parse_url
from tenure.tools.web.decoding import decode

NODES_MAX = 300_000
"""Of one page that are looked at; the rest is left out."""
LINKS_MAX = 3_000
CPU_S_MAX = 30
MEMORY_BYTES_MAX = 1024 * 1024 * 1024
MAIN_SHARE = 0.3
"""A part that says it is the main one is believed if it holds so much of the page's text."""

_UNSEEN = "script,style,noscript,template,svg,iframe,object,canvas,head,dialog,[hidden]"
_AROUND = "nav,header,footer,aside,form,[role=navigation],[role=banner],[role=contentinfo]"
_HEADINGS = {"h1": "# ", "h2": "## ", "h3": "### ", "h4": "#### ", "h5": "##### ", "h6": "###### "}
_BEFORE = {"li": "\n- ", "br": "\n", "td": " | ", "th": " | ", "tr": "\n", "hr": "\n\n---\n"}
_PRE_END = "\n```\n\n"
_BLOCKS = frozenset(
    {
        "address", "article", "aside", "blockquote", "dd", "details", "div", "dl", "dt", "fieldset",
        "figcaption", "figure", "footer", "form", "header", "hr", "main", "nav", "ol", "p",
        "section", "summary", "table", "tbody", "thead", "ul", "body", "html", "caption",
    }
)  # fmt: skip


class Page(NamedTuple):
    """What was read of a page."""

    title: str
    text: str


def read_html(body: bytes, content_type: str, url: Url, *, links: bool) -> Page:
    """The readable text of a page.

    Args:
        body: as it came, decompressed.
        content_type: the header, for its charset.
        url: for relative links.
        links: write ``[text](address)`` instead of the text alone.
    """
    tree = LexborHTMLParser(decode(body, content_type))
    title_node = tree.css_first("title")
    title = " ".join((title_node.text() if title_node else "").split())[:300]
    for node in tree.css(_UNSEEN):
        node.decompose()
    root = _main_part(tree)
    if root is None:
        return Page(title, "")
    text = "".join(_Writer(url if links else None).walk(root))
    return Page(title, tidy(text))


def _main_part(tree: LexborHTMLParser) -> LexborNode | None:
    """The part that says it is the main one; else the body without what usually stands around."""
    body = tree.body
    if body is None:
        return tree.root
    whole = len(body.text())
    for query in ("main", "[role=main]", "article"):
        found = tree.css(query)
        if len(found) == 1 and len(found[0].text()) >= MAIN_SHARE * whole:
            return found[0]
    around = body.css(_AROUND)
    if sum(len(node.text()) for node in around) < (1 - MAIN_SHARE) * whole:
        for node in around:
            node.decompose()
    return body


class _Writer:
    """Writes the text of a tree, piece by piece.

    Args:
        base: what links are relative to; None: links are not written.
    """

    def __init__(self, base: Url | None) -> None:
        self._base = base
        self._links = 0
        self._plain = 0
        """How many ``pre`` stand around: their blanks are kept."""

    def walk(self, root: LexborNode) -> Iterator[str]:
        """Every piece in order. Without recursion, so depth costs nothing."""
        todo: list[LexborNode | str] = [root]
        seen = 0
        while todo:
            node = todo.pop()
            if isinstance(node, str):  # what ends an element
                self._plain -= node == _PRE_END
                yield node
                continue
            seen += 1
            if seen > NODES_MAX:
                return
            if node.tag == "-text":
                yield self._text(node)
                continue
            begin, end = self._around(node)
            yield begin
            todo.append(end)
            todo.extend(reversed(list(node.iter(include_text=True))))

    def _text(self, node: LexborNode) -> str:
        text = node.text_content or ""
        return text if self._plain else re.sub(r"\s+", " ", text)

    def _around(self, node: LexborNode) -> tuple[str, str]:
        """What is written before and after what an element holds."""
        tag = node.tag or ""
        if tag in _HEADINGS:
            return f"\n\n{_HEADINGS[tag]}", "\n\n"
        if tag == "pre":
            self._plain += 1
            return "\n\n```\n", _PRE_END
        if tag == "a" and self._base is not None and self._links < LINKS_MAX:
            target = _target(node, self._base)
            self._links += 1
            return ("[", f"]({target})") if target else ("", "")
        if tag == "img":
            alt = " ".join((node.attributes.get("alt") or "").split())[:200]
            return f"[image: {alt}]" if alt else "", ""
        block = "\n\n" if tag in _BLOCKS else ""
        return _BEFORE.get(tag, block), block


def _target(node: LexborNode, base: Url) -> str:
    """Where a link leads; "" if that is the page itself, or no page of the web."""
    href = (node.attributes.get("href") or "").strip()
    if not href or href.startswith("#"):
        return ""
    try:
        return str(parse_url(re.sub(r"[\t\r\n]", "", href).replace(" ", "%20"), base))
    except ToolError:
        return ""


def tidy(text: str) -> str:
    """`text` without blanks at the ends of lines and with at most one empty line in a row."""
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fenced ^= line.strip() == "```"
        kept = line.rstrip() if fenced else " ".join(line.split())
        if kept or (lines and lines[-1]):
            lines.append(kept)
    return "\n".join(lines).strip()


def main() -> None:
    """Read a line of JSON (url, type, links) and the page from stdin; write the text as JSON."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S_MAX, CPU_S_MAX))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    head, _, body = sys.stdin.buffer.read().partition(b"\n")
    asked = json.loads(head)
    page = read_html(body, asked["type"], parse_url(asked["url"]), links=asked["links"])
    sys.stdout.write(json.dumps(page))


if __name__ == "__main__":
    main()
