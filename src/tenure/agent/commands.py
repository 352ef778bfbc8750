"""What a shell command would run, read without running it.

`parse_command` turns a text into the simple commands it contains, however nested: parts of chains
and pipes, subshells, command and process substitutions, function bodies, the text of ``bash -c``,
``eval`` and ``trap``. It is an aid for approvals, not a shell: whatever it does not understand
makes the result `opaque`, and an opaque command is asked about. Pure, but slow for an event loop
(up to 0.25 s at the size limit): call it in a thread.

The parser is bashlex. Three of its limits decide what is opaque here. It does not look into
``${x:-$(cmd)}``, and loops for ever on an unclosed ``${``. It takes the quotes of a here-document's
delimiter as part of it, so that it may take commands for text. It does not know ``$'..'``.
"""

from __future__ import annotations

import itertools
import posixpath
import re
import shlex
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, TypeAlias

import msgspec

COMMAND_CHARS_MAX = 4_000
"""Longer commands are opaque. At this size the parser takes 0.13-0.22 s on a slow core."""
CALLS_MAX = 1_500_000
"""Function calls that one parse may make; five times what the worst text of that size needs."""
DEPTH_MAX = 4
"""Texts inside texts (``bash -c "bash -c …"``)."""

_Node: TypeAlias = Any
"""A node of the parser's tree; the library has no types."""

_UNREADABLE = (
    (re.compile(r"\$\{(?![A-Za-z_][A-Za-z0-9_]*\})"), "an expansion ${…}"),
    (re.compile(r"(?<!<)<<(?!<)"), "a here-document"),
    (re.compile(r"[\x00-\x08\x0b-\x1f\x7f]"), "a control character"),
    (re.compile(r"\\\n"), "a line continuation"),
)
_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[?#@*$!-]")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "su", "script", "sg"})
CARRIERS = frozenset(
    {
        "sudo", "doas", "env", "xargs", "parallel", "find", "fd", "time", "nice", "ionice", "nohup",
        "timeout", "setsid", "stdbuf", "chroot", "unshare", "nsenter", "watch", "strace", "flock",
        "command", "builtin", "exec", "busybox", "toybox", "eval", "trap", "coproc", "git", "chrt",
        "taskset", "systemd-run", "runuser", "script", "su", "sh", "bash", "dash", "zsh", "ksh",
    }
)  # fmt: skip
"""Commands that may run their arguments: a deny rule looks at every tail of their words."""
_COMPUTED = re.compile(r"[*?\[{$`]")
_TIME = re.compile(r"\s*time\s+(?:-p\s+)?(?=[^\s-])")


class Part(msgspec.Struct, frozen=True):
    """One simple command."""

    words: tuple[str, ...]
    """Quotes removed, expansions as written."""
    assigns: tuple[str, ...] = ()
    """``NAME=value`` before it."""
    writes: tuple[str, ...] = ()
    """Targets of redirections that write (``/dev/null`` and descriptors left out)."""
    reads: tuple[str, ...] = ()
    """Targets of redirections that read."""
    dynamic: bool = False
    """A word has a variable, a substitution or a home directory in it."""

    @property
    def name(self) -> str:
        """The command without its folder."""
        return posixpath.basename(self.words[0]) if self.words else ""

    @property
    def text(self) -> str:
        """One line for rules and people, quoted where quotes matter."""
        redirections = [f"> {shlex.quote(target)}" for target in self.writes]
        return " ".join([*self.assigns, shlex.join(self.words), *redirections]).strip()


class Parsed(msgspec.Struct, frozen=True):
    """What a text would run."""

    parts: tuple[Part, ...] = ()
    opaque: str = ""
    """Why it cannot be judged in full; empty where it can. `parts` then is what could be read."""


class _TooMuch(Exception):  # noqa: N818 - a signal, not an error anyone sees
    """The parser's budget is used up."""


def parse_command(text: str, depth: int = 0) -> Parsed:
    """Read a shell command.

    Args:
        text: as given to ``bash -c``.
        depth: how many texts this one is inside of.
    """
    reason = _unreadable(text, depth)
    if reason:
        return Parsed(opaque=reason)
    try:
        trees = _trees(_TIME.sub("", text, count=1))
    except _TooMuch:
        return Parsed(opaque="too complex")
    except RecursionError:
        return Parsed(opaque="too deeply nested")
    except Exception:  # noqa: BLE001 - the parser raises six kinds of its own accidents; all mean "ask"
        return Parsed(opaque="not understood by the parser")
    return _collect(trees, depth)


def _unreadable(text: str, depth: int) -> str:
    if depth > DEPTH_MAX:
        return "too deeply nested"
    if len(text) > COMMAND_CHARS_MAX:
        return f"longer than {COMMAND_CHARS_MAX} characters"
    if not text.strip():
        return "empty"
    for pattern, reason in _UNREADABLE:
        if pattern.search(text):
            return reason
    if any(ord(char) > 127 and not char.isalnum() for char in text):
        return "an unusual character"
    return ""


def _trees(text: str) -> list[_Node]:
    """Parse with a budget of function calls, since the parser can loop for ever."""
    import bashlex

    calls = 0

    def count(_frame: FrameType, _event: str, _arg: object) -> None:
        nonlocal calls
        calls += 1
        if calls > CALLS_MAX:
            raise _TooMuch

    before = sys.gettrace()
    sys.settrace(count)  # per thread; "call" events only, since `count` returns None
    try:
        trees: list[_Node] = bashlex.parse(text)
    finally:
        sys.settrace(before)
    return trees


def _collect(trees: list[_Node], depth: int) -> Parsed:
    parts: list[Part] = []
    opaque = ""
    for node in _nodes(trees):
        if node.kind == "parameter" and not _PARAMETER.fullmatch(getattr(node, "value", "")):
            opaque = "a quoted or computed expansion"
        elif node.kind in ("compound", "function"):
            parts += _redirected(node)
        elif node.kind == "command":
            part = _part(node)
            parts.append(part)
            opaque = opaque or _computed_name(part)
            for inner in _inner_texts(part):
                below = parse_command(inner, depth + 1)
                parts += below.parts
                opaque = opaque or below.opaque
    return Parsed(tuple(parts), opaque)


def _nodes(trees: list[_Node]) -> Iterator[_Node]:
    """Every node of every tree, parents first."""
    stack = list(reversed(trees))
    while stack:
        node = stack.pop()
        yield node
        below: list[_Node] = []
        for name in ("parts", "list", "redirects", "command", "output", "heredoc"):
            value = getattr(node, name, None)
            if isinstance(value, list):
                below += value
            elif hasattr(value, "kind"):
                below.append(value)
        stack += reversed(below)


def _part(node: _Node) -> Part:
    words: list[str] = []
    assigns: list[str] = []
    writes: list[str] = []
    reads: list[str] = []
    dynamic = False
    for child in node.parts:
        if child.kind == "word":
            words.append(child.word)
            dynamic = dynamic or bool(child.parts)
        elif child.kind == "assignment":
            assigns.append(child.word)
        elif child.kind == "redirect":
            _redirect(child, writes, reads)
    return Part(tuple(words), tuple(assigns), tuple(writes), tuple(reads), dynamic)


def _redirected(node: _Node) -> Iterator[Part]:
    """The redirections of a group, as a part without words."""
    writes: list[str] = []
    reads: list[str] = []
    for child in getattr(node, "redirects", ()):
        _redirect(child, writes, reads)
    if writes or reads:
        yield Part((), writes=tuple(writes), reads=tuple(reads))


def _computed_name(part: Part) -> str:
    """Why it is not known what this part runs: ``$X``, ``/bin/r?``, ``{rm,x}``."""
    judged = part.words if part.name in CARRIERS - {"git", "find", "fd"} else part.words[:1]
    if any(_COMPUTED.search(word) for word in judged) and not _is_text(part):
        return "a computed command name"
    return ""


def _is_text(part: Part) -> bool:
    """Whether the words after the first are a text that is parsed by itself."""
    return not _COMPUTED.search(part.words[0]) and any(_inner_texts(part))


def _redirect(node: _Node, writes: list[str], reads: list[str]) -> None:
    target = getattr(node.output, "word", None)
    if target is None or target == "/dev/null":
        return  # another descriptor, or nowhere
    if node.type == "<<<":
        return  # a text
    (writes if node.type in _WRITING else reads).append(target)


def _inner_texts(part: Part) -> Iterator[str]:
    """Texts that this command would run as shell commands."""
    words = part.words
    if part.name == "eval" and len(words) > 1:
        yield " ".join(words[1:])
    elif part.name == "trap" and len(words) > 2:
        yield words[1]
    for index, word in enumerate(words[:-1]):
        if posixpath.basename(word) in _SHELLS:
            yield from _after_dash_c(words[index + 1 :])
            return


def _after_dash_c(arguments: tuple[str, ...]) -> Iterator[str]:
    for option, value in itertools.pairwise(arguments):
        if re.fullmatch(r"-[a-zA-Z]*c|--command", option):
            yield value
            return
