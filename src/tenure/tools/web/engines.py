"""Search services: what each is asked, and how its answer is read. Pure.

A service is one entry of `ENGINES`: what to send, what comes back. Everything that travels goes
through `net.http`, so its limits hold for services too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from tenure.errors import ToolError
from tenure.net.urls import Url, parse_url

TITLE_CHARS_MAX = 200
SNIPPET_CHARS_MAX = 500


class Hit(NamedTuple):
    """One thing that was found."""

    title: str
    url: str
    snippet: str


class Asked(NamedTuple):
    """A request to a service."""

    method: str
    url: Url
    headers: Mapping[str, str]
    content: bytes = b""


class Engine(NamedTuple):
    """A service.

    Attributes:
        name: in the configuration.
        title: for people.
        base: its address, unless the configuration names another.
        key_env: the variable that may hold its key; "" if it needs none.
        ask: makes the request from the base, the words, the number of results and the key.
        read: the rows of its answer.
        fields: what title, address and snippet are called in a row.
    """

    name: str
    title: str
    base: str
    key_env: str
    ask: Callable[[str, str, int, str], Asked]
    read: Callable[[dict[str, Any]], Any]
    fields: tuple[str, str, str]


def _ask_searxng(base: str, words: str, count: int, key: str) -> Asked:
    del count, key  # it gives a page of results and asks for no key
    query = urlencode({"q": words, "format": "json"})
    return Asked("GET", parse_url(f"{base.rstrip('/')}/search?{query}"), {})


def _ask_brave(base: str, words: str, count: int, key: str) -> Asked:
    query = urlencode({"q": words, "count": count, "text_decorations": "false"})
    return Asked(
        "GET", parse_url(f"{base.rstrip('/')}/web/search?{query}"), {"x-subscription-token": key}
    )


def _ask_tavily(base: str, words: str, count: int, key: str) -> Asked:
    body = json.dumps({"query": words, "max_results": count}).encode()
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    return Asked("POST", parse_url(f"{base.rstrip('/')}/search"), headers, body)


ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine(
            "searxng", "SearXNG", "", "", _ask_searxng,
            lambda answer: answer.get("results"), ("title", "url", "content"),
        ),
        Engine(
            "brave", "Brave Search", "https://api.search.brave.com/res/v1", "BRAVE_API_KEY",
            _ask_brave, lambda answer: (answer.get("web") or {}).get("results") or [],
            ("title", "url", "description"),
        ),
        Engine(
            "tavily", "Tavily", "https://api.tavily.com", "TAVILY_API_KEY", _ask_tavily,
            lambda answer: answer.get("results"), ("title", "url", "content"),
        ),
    )
}  # fmt: skip


def read_hits(engine: Engine, status: int, body: bytes, count: int) -> list[Hit]:
    """What was found.

    Raises:
        ToolError: the service refused, or its answer is not what it is known to give; one sentence,
            without anything that was sent.
    """
    if status in {401, 403}:
        raise ToolError(_refused(engine, status))
    if status in {402, 429, 432, 433}:
        raise ToolError(f"{engine.title} has had too many searches (status {status}); wait.")
    if status != 200:
        raise ToolError(f"{engine.title} failed with status {status}.")
    try:
        answer = json.loads(body)
        rows = engine.read(answer)
        return hits_of(rows, engine.fields, count)
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError):
        raise ToolError(f"The answer of {engine.title} cannot be understood.") from None


def hits_of(rows: Any, fields: tuple[str, str, str], count: int) -> list[Hit]:
    """Rows as hits: those with an address, each text on one line and of bounded length.

    Raises:
        TypeError, AttributeError: these are no rows.
    """
    title, url, snippet = fields
    found = []
    for row in msgspec.convert(rows, list[dict[str, Any]]):
        address = str(row.get(url) or "")
        if address.startswith(("http://", "https://")):
            found.append(
                Hit(
                    _line(row.get(title), TITLE_CHARS_MAX) or address[:TITLE_CHARS_MAX],
                    address[:2_000],
                    _line(row.get(snippet), SNIPPET_CHARS_MAX),
                )
            )
    return found[:count]


def _line(text: object, chars: int) -> str:
    line = " ".join(str(text or "").split())
    return line if len(line) <= chars else f"{line[: chars - 1]}…"


def _refused(engine: Engine, status: int) -> str:
    if not engine.key_env:
        return (
            f"{engine.title} refuses (status {status}); allow the format json in its settings.yml."
        )
    return (
        f"{engine.title} refuses the key (status {status}); give it another: "
        f"`tenure web login {engine.name}`."
    )
