"""What a shell command would run, read without running it.

`parse_command` turns a text into the simple commands it contains, however nested: parts of chains
and pipes, subshells, command and process substitutions, function bodies, the text of ``bash -c``,
``eval`` and ``trap``. It is an aid for approvals, not a shell: whatever it does not understand
makes the result `opaque`, and an opaque command is asked about. Pure.

The parser is tree-sitter's grammar of bash: fast, and it ends on every input. What it reports as an
error, and every kind of node that this module does not know, is opaque; so are a few forms that are
not worth the risk (here-documents, ``${x:-…}``, ``$'…'``, line continuations).
"""

from __future__ import annotations

import itertools
import posixpath
import re
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

COMMAND_CHARS_MAX = 4_000
"""Longer commands are opaque."""
DEPTH_MAX = 4
"""Texts inside texts (``bash -c "bash -c …"``)."""

_UNREADABLE = (
    (re.compile(r"\$\{(?![A-Za-z_][A-Za-z0-9_]*\})"), "an expansion ${…}"),
    (re.compile(r"[\x00-\x08\x0b-\x1f\x7f]"), "a control character"),
    (re.compile(r'\$"'), "a translated text"),
    (re.compile(r"\\\n"), "a line continuation"),
)
_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})
_ADDING = frozenset({">>", "&>>"})
DELETING = frozenset({"rm", "rmdir", "unlink", "shred", "srm", "trash", "trash-put"})
"""Commands that take files away."""
_COMMANDS = frozenset({"command", "declaration_command", "unset_command", "test_command"})
_EXPANSIONS = frozenset(
    {
        "simple_expansion", "expansion", "command_substitution", "process_substitution",
        "brace_expression",
    }
)  # fmt: skip
_STRUCTURE = frozenset(
    {
        "program", "list", "pipeline", "redirected_statement", "subshell", "compound_statement",
        "if_statement", "elif_clause", "else_clause", "for_statement", "c_style_for_statement",
        "while_statement", "do_group", "function_definition",
        "negated_command", "variable_assignments", "comment", "command_name", "file_redirect",
        "file_descriptor", "herestring_redirect", "word", "string", "string_content", "raw_string",
        "concatenation", "number", "variable_name", "special_variable_name",
        "test_operator", "unary_expression", "binary_expression", "ternary_expression",
        "postfix_expression", "parenthesized_expression", "regex", "extglob_pattern",
    }
)  # fmt: skip
_KNOWN = _STRUCTURE | _COMMANDS | _EXPANSIONS | {"variable_assignment"}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r"\\([$`\"\\\n])")
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
_GLOB = re.compile(r"(?<!\\)[*?\[]")
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
    globs: bool = False
    """A word is an unquoted pattern: the shell puts file names in its place, options among them."""
    appends: tuple[str, ...] = ()
    """Those of `writes` that are only added to."""

    @property
    def name(self) -> str:
        """The command without its folder."""
        return posixpath.basename(self.words[0]) if self.words else ""

    @property
    def text(self) -> str:
        """One line for rules and people, quoted where quotes matter."""
        return self._line(self.appends)

    @property
    def overwriting(self) -> str:
        """`text` as if all that it writes were written over: a rule that denies that means both."""
        return self._line(())

    def _line(self, appends: tuple[str, ...]) -> str:
        redirections = [
            f"{'>>' if target in appends else '>'} {shlex.quote(target)}" for target in self.writes
        ]
        return " ".join([*self.assigns, shlex.join(self.words), *redirections]).strip()

    @property
    def deletes(self) -> bool:
        """Whether it takes files away, as far as its words say so; through a carrier, too."""
        if self.name == "git":
            return not {"rm", "clean"}.isdisjoint(self.words[1:2])
        if self.name == "find" and "-delete" in self.words:
            return True
        heads = self.words if self.name in CARRIERS else self.words[:1]
        return any(posixpath.basename(word) in DELETING for word in heads)


class Parsed(msgspec.Struct, frozen=True):
    """What a text would run."""

    parts: tuple[Part, ...] = ()
    opaque: str = ""
    """Why it cannot be judged in full; empty where it can. `parts` then is what could be read."""


def parse_command(text: str, depth: int = 0) -> Parsed:
    """Read a shell command.

    Args:
        text: as given to ``bash -c``.
        depth: how many texts this one is inside of.
    """
    reason = _unreadable(text, depth)
    if reason:
        return Parsed(opaque=reason)
    root = _parser().parse(_TIME.sub("", text, count=1).encode()).root_node
    if root.has_error:
        return Parsed(opaque="not understood by the parser")
    return _collect(root, depth)


def _parser() -> Parser:
    """A parser; making one costs microseconds. Imported late: most turns run no command."""
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _unreadable(text: str, depth: int) -> str:
    if depth > DEPTH_MAX:
        return "too deeply nested"
    if len(text) > COMMAND_CHARS_MAX:
        return f"longer than {COMMAND_CHARS_MAX} characters"
    for pattern, reason in _UNREADABLE:
        if pattern.search(text):
            return reason
    if any(ord(char) > 127 and not char.isalnum() for char in text):
        return "an unusual character"
    return ""


def _collect(root: Node, depth: int) -> Parsed:
    parts: list[Part] = []
    opaque = ""
    for node in _nodes(root):
        if node.type not in _KNOWN:
            opaque = opaque or f"a construct that is not judged ({node.type.replace('_', ' ')})"
        part = _part(node)
        if part is None:
            continue
        parts.append(part)
        opaque = opaque or _computed_name(part)
        for inner in _inner_texts(part):
            below = parse_command(inner, depth + 1)
            parts += below.parts
            opaque = opaque or below.opaque
    if not parts:
        opaque = opaque or "empty"
    return Parsed(tuple(parts), opaque)


def _nodes(root: Node) -> Iterator[Node]:
    """Every named node, parents first, in the order of the text."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack += reversed(node.named_children)


def _part(node: Node) -> Part | None:
    """The simple command that a node is, or the redirections of a group; None for other nodes."""
    if node.type in _COMMANDS:
        return _command(node)
    above = node.parent
    if node.type == "redirected_statement":
        body = node.child_by_field_name("body")
        if body is not None and body.type in _COMMANDS:
            return None  # its redirections belong to the command
        writes, reads, appends = _redirections(node)
        return Part((), writes=writes, reads=reads, appends=appends) if writes or reads else None
    if node.type == "variable_assignment" and (above is None or above.type not in _COMMANDS):
        return Part((), assigns=(_source(node),), dynamic=_is_dynamic(node))
    return None


def _command(node: Node) -> Part:
    words: list[str] = []
    assigns: list[str] = []
    if node.type != "command":
        words.append(_source(node).split(maxsplit=1)[0])
    for child in node.named_children:
        if child.type == "variable_assignment" and node.type == "command":
            assigns.append(_source(child))
        elif not child.type.endswith("_redirect"):
            words.append(_word(child))
    writes, reads, appends = _redirections(node)
    if node.parent is not None and node.parent.type == "redirected_statement":
        more_writes, more_reads, more_appends = _redirections(node.parent)
        writes, reads = writes + more_writes, reads + more_reads
        appends += more_appends
    globs = any(found.type == "word" and _GLOB.search(_source(found)) for found in _nodes(node))
    return Part(tuple(words), tuple(assigns), writes, reads, _is_dynamic(node), globs, appends)


def _word(node: Node) -> str:
    """A word with its quotes removed and its expansions as written."""
    if node.type in {"command_name", "concatenation"} and node.named_children:
        text, at = "", node.start_byte
        for child in node.named_children:
            text += _between(node, at, child.start_byte) + _word(child)
            at = child.end_byte
        return text + _between(node, at, node.end_byte)
    source = _source(node)
    if node.type == "raw_string":
        return source[1:-1]
    if node.type == "string":
        return _ESCAPED_IN_QUOTES.sub(r"\1", source[1:-1])
    if node.type == "word":
        return _ESCAPED.sub(r"\1", source)
    return source


def _between(node: Node, start: int, end: int) -> str:
    """Text of `node` that belongs to no named child."""
    base = node.start_byte
    return (node.text or b"")[start - base : end - base].decode("utf-8", "replace")


def _source(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _is_dynamic(node: Node) -> bool:
    """Whether a word has a variable, a substitution or a home directory in it."""
    return any(
        found.type in _EXPANSIONS or (found.type == "word" and _source(found).startswith("~"))
        for found in _nodes(node)
        if found is not node
    )


def _redirections(node: Node) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Targets that are written, targets that are read, and which are written by adding alone."""
    writes: list[str] = []
    over: set[str] = set()
    reads: list[str] = []
    for child in node.named_children:
        if child.type != "file_redirect":
            continue  # a text (<<<), or no redirection
        operator = next((c.type for c in child.children if not c.is_named), "")
        target = child.child_by_field_name("destination")
        if target is None or (operator in {">&", "<&"} and target.type == "number"):
            continue  # another descriptor
        name = _word(target)
        if name != "/dev/null":
            (writes if operator in _WRITING else reads).append(name)
            if operator not in _ADDING:
                over.add(name)
    return tuple(writes), tuple(reads), tuple(name for name in writes if name not in over)


def _computed_name(part: Part) -> str:
    """Why it is not known what this part runs: ``$X``, ``/bin/r?``, ``{rm,x}``."""
    if part.name == "coproc":
        return "a coprocess"
    judged = part.words if part.name in CARRIERS - {"git", "find", "fd"} else part.words[:1]
    if any(_COMPUTED.search(word) for word in judged) and not _is_text(part):
        return "a computed command name"
    return ""


def _is_text(part: Part) -> bool:
    """Whether the words after the first are a text that is parsed by itself."""
    return not _COMPUTED.search(part.words[0]) and any(_inner_texts(part))


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
