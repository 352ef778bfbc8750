"""What makes sense in a configuration, beyond its types: ranges and forms. Pure.

Every refusal is a sentence that names the key; `line_of` says where it stands in the file.
"""

from __future__ import annotations

import copy
import difflib
import math
import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec

from tenure.ids import whole_number

Config = Any
"""A `tenure.config.Config`, which is read with the help of this module and so stands above it."""
TOOLS = (
    "background", "browser", "browser_save", "clarify", "delegate", "edit", "glob", "list", "read",
    "search", "session_search", "shell", "terminal", "todo", "web_fetch", "web_search", "write",
)  # fmt: skip
"""The tools that a rule may name; a test compares them with the ones there are."""
PORT_MAX = 65_535
AT_LEAST_ONE = frozenset(
    {
        "limits.steps_max", "limits.repeat_max", "limits.tool_output_bytes_max",
        "limits.sessions_max", "limits.loaded_max", "limits.history_mib", "recovery.attempts_max",
        "starter.context_tokens",
    }
)  # fmt: skip
MORE_THAN_ZERO = frozenset(
    {"limits.tool_timeout_s", "approvals.timeout_s", "starter.start_timeout_s"}
)
SYSTEM_FOLDERS = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "sbin", "sys", "usr"}
)
_NUMBERS = re.compile(r"[0-9.]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PROVIDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HOST = re.compile(r"[A-Za-z0-9.:_-]+|\[[0-9a-fA-F:.]+\]")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/]+")
_REACHED = re.compile(
    r"(\*|[A-Za-z0-9_*-]{1,63}(\.[A-Za-z0-9_*-]{1,63})*\.?)(/\d{1,2}|:\d{1,5})?"
    r"|[0-9A-Fa-f:.]+(/\d{1,3})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?"
)
"""An entry of ``web.allow``, by its form; `net.addresses.parse_allowed` reads it."""
_STEP = re.compile(r"[^.\[\]]+")
"""Of a dotted key, whose numbers stand in brackets."""
_ODD = re.compile(r"Invalid enum value (.*)")
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_HEADER = re.compile(r"(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"""((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")


class Problem(NamedTuple):
    """A value that makes no sense.

    Attributes:
        key: dotted, such as ``approvals.rules[0].tool``.
        text: what is wrong with it, and what would be right; follows the key.
    """

    key: str
    text: str


def problems(config: Config) -> Iterator[Problem]:
    """Everything in `config` that makes no sense."""
    yield from _numbers(msgspec.to_builtins(config))
    yield from _providers(config)
    yield from _rules(config)
    yield from _server(config)
    yield from _web(config)
    yield from _sandbox(config)
    if config.model.default.startswith(":") or config.model.default != config.model.default.strip():
        yield Problem("model.default", "names no provider; write provider:name.")


def mistake(exc: msgspec.ValidationError, struct: type[msgspec.Struct], at: str = "") -> Problem:
    """What of a value does not have the form of `struct`, in our words.

    Args:
        exc: what the library says of it.
        struct: what it should have been.
        at: where in it the value stands that was read.
    """
    text, _, where = str(exc).partition(" - at `$")
    key = f"{at}{where.rstrip('`')}".strip(".")
    if missing := _MISSING.fullmatch(text):
        key = f"{key}.{missing[1]}".strip(".")
    values = _values_of(struct, key)
    use = f"; use one of {', '.join(map(str, values))}" if values else ""
    if missing:
        return Problem(key, f"is missing{use}.")
    if odd := _ODD.fullmatch(text):
        return Problem(key, f"has a wrong value: {odd[1]}{use}.")
    return Problem(key, f"has a wrong value: {text}{use}.")


def _values_of(kind: Any, key: str) -> tuple[Any, ...]:
    """The values that a key may have, where they are a list."""
    for name in _STEP.findall(key):
        if name.isdecimal():
            kind = get_args(kind)[0] if get_args(kind) else None
        elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            kind = {f.name: f.type for f in msgspec.structs.fields(kind)}.get(name)
    values = get_args(kind) if get_origin(kind) is Literal else ()
    return tuple(value for value in values if value != "")


def mended(raw: dict[str, Any], key: str, struct: type[msgspec.Struct]) -> dict[str, Any]:
    """`raw` with another value at `key`, so that what else is wrong is found, too.

    The first value that it may have, where they are a list, else none. A list of which an entry is
    wrong goes as a whole: the numbers of the others would not be theirs any more.
    """
    *above, last = _STEP.findall(key)
    if last.isdecimal():
        return mended(raw, key.rpartition("[")[0], struct)
    raw = copy.deepcopy(raw)
    inner: Any = raw
    for step in above:
        inner = inner[int(step)] if isinstance(inner, list) else inner[step]
    if values := _values_of(struct, key):
        inner[last] = values[0]
    elif last in inner:
        del inner[last]
    else:  # it is missing, and nobody can say what would do
        return mended(raw, key.rpartition(".")[0], struct)
    return raw


def _numbers(value: Any, key: str = "") -> Iterator[Problem]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _numbers(inner, f"{key}.{name}" if key else name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        low = 1 if key in AT_LEAST_ONE else 0
        if not math.isfinite(value) or value < low or (value == 0 and key in MORE_THAN_ZERO):
            least = "more than 0" if key in MORE_THAN_ZERO else f"{low} or more"
            yield Problem(key, f"is {value}; it must be {least}.")


def _providers(config: Config) -> Iterator[Problem]:
    for name, entry in config.providers.items():
        at = f"providers.{name}"
        if not _PROVIDER.fullmatch(name):
            yield Problem(at, "cannot be a name: use letters, digits, '.', '_' and '-'.")
        if entry.base_url and not _is_url(entry.base_url):
            yield Problem(
                f"{at}.base_url", "is no address; write one like http://127.0.0.1:8000/v1."
            )
        if entry.api_key_env and not _VARIABLE.fullmatch(entry.api_key_env):
            yield Problem(
                f"{at}.api_key_env",
                "is no name of a variable; name the one that holds the key, never the key itself.",
            )


def _rules(config: Config) -> Iterator[Problem]:
    for number, rule in enumerate(config.approvals.rules):
        at = f"approvals.rules[{number}]"
        tools = [tool for tool in TOOLS if fnmatchcase(tool, rule.tool)]
        if not tools and "__" not in rule.tool:
            near = difflib.get_close_matches(rule.tool, TOOLS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"tools: {', '.join(TOOLS)}."
            yield Problem(f"{at}.tool", f"{rule.tool[:40]!r} names no tool; {hint}")
        elif rule.command and "shell" not in tools:
            yield Problem(f"{at}.command", "is a command, but the rule is not about shell.")


def _server(config: Config) -> Iterator[Problem]:
    server = config.server
    if server.port > PORT_MAX:
        yield Problem("server.port", f"is {server.port}; it is a number from 0 to {PORT_MAX}.")
    if not _HOST.fullmatch(server.host):
        yield Problem("server.host", "is no address to listen on; write one like 127.0.0.1.")
    for number, host in enumerate(server.allow_hosts):
        if not _HOST.fullmatch(host):
            yield Problem(
                f"server.allow_hosts[{number}]", "is no name of a host (without http://)."
            )
    for number, origin in enumerate(server.allow_origins):
        if not _ORIGIN.fullmatch(origin):
            yield Problem(
                f"server.allow_origins[{number}]",
                "is no origin; write one like https://example.org.",
            )


def _web(config: Config) -> Iterator[Problem]:
    web = config.web
    for number, entry in enumerate(web.allow):
        if not _REACHED.fullmatch(entry) or not _is_reachable(entry):
            yield Problem(
                f"web.allow[{number}]",
                "is no address, network or host; write one like 10.1.0.0/16 or wiki.local:8080.",
            )
    for key, url in (("web.proxy", web.proxy), ("web.search.url", web.search.url)):
        if url and not _is_url(url):
            yield Problem(key, "is no address; write one like http://127.0.0.1:8080.")
    if web.search.provider == "searxng" and not web.search.url:
        yield Problem("web.search.url", "is missing: it names the SearXNG server.")


def _is_reachable(entry: str) -> bool:
    """Whether what has the form of a network or an address is one; a name may be any."""
    head, slash, _ = entry.partition("/")
    host, colon, port = head.rpartition(":")
    if colon and port.isdecimal() and ":" not in host.strip("[]"):
        if not 0 < (whole_number(port) or 0) <= PORT_MAX:
            return False
        head = host
    if not slash and not _NUMBERS.fullmatch(head):
        return True
    import ipaddress  # 3 ms, which a start without such an entry saves

    try:
        ipaddress.ip_network(entry if slash else head, strict=False)
    except ValueError:
        return False
    return True


def _sandbox(config: Config) -> Iterator[Problem]:
    sandbox = config.sandbox
    for key, paths in (("read", sandbox.read), ("write", sandbox.write)):
        for number, path in enumerate(paths):
            at = f"sandbox.{key}[{number}]"
            if not path.startswith(("/", "~/")):
                yield Problem(at, "is no absolute path; begin it with / or ~/.")
            elif key == "write" and _is_of_the_system(path):
                yield Problem(
                    at, "would let commands change the system; name a folder of your own."
                )


def _is_of_the_system(path: str) -> bool:
    top = posixpath.normpath(path).lstrip("/").partition("/")[0]
    return not top or top in SYSTEM_FOLDERS


def _is_url(text: str) -> bool:
    from urllib.parse import urlsplit  # 3 ms, which a start without such a table saves

    try:
        parts = urlsplit(text)
        return (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and parts.port != 0
            and parts.username is None
            and not re.search(r"\s", text)
        )
    except ValueError:
        return False


def line_of(text: str, key: str) -> int:
    """The line of TOML `text` at which `key` stands, or what it stands in; 0 if nowhere."""
    table, best, depth = "", 0, 0
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.fullmatch(line.strip()):
            table = _plain(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = f"{table}[{counts[table]}]"
            here = table
        elif found := _KEY.match(line.strip()):
            here = f"{table}.{_plain(found[1])}" if table else _plain(found[1])
        else:
            continue
        if len(here) > depth and (key == here or key.startswith((f"{here}.", f"{here}["))):
            best, depth = number, len(here)
    return best


def _plain(key: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in key.split("."))
