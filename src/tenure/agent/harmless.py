"""The short list of shell commands that run without a question.

A command stands here if, with the arguments that its check admits, it reads below the working
directory and writes nothing. Everything doubtful is left out: asking costs a key press. Known
limits, since nothing on disk is looked at: ``git`` obeys the repository's own configuration, which
may name programs, and a link in the working directory may lead out of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tenure.agent.commands import Part

_Check = Callable[[tuple[str, ...]], bool]
_READERS = (
    "ls", "cat", "pwd", "wc", "head", "tail", "grep", "egrep", "fgrep", "echo", "cut", "tr", "nl",
    "basename", "dirname", "stat", "du", "df", "true", "false", "whoami", "id", "uname", "seq",
    "cmp", "comm", "diff", "which", "type",
)  # fmt: skip
"""Nothing that these accept writes or runs anything."""
_FIND_ACTIONS = re.compile(r"-(delete|exec|execdir|ok|okdir|fls|fprint.*|files0-from)")
_LOOKS_OUTSIDE = re.compile(r"(^|=)[/~]|(^|[/=])\.\.(/|$)")
_HIDDEN_GLOB = re.compile(r"(^|/)\.[^/]*[*?\[]")
"""``.*`` and ``.?`` can mean the parent directory."""


def _anything(_arguments: tuple[str, ...]) -> bool:
    return True


def _plain(arguments: tuple[str, ...]) -> bool:
    """No options."""
    return not any(word.startswith("-") for word in arguments)


def _find(arguments: tuple[str, ...]) -> bool:
    return not any(_FIND_ACTIONS.match(word) for word in arguments)


def _sort(arguments: tuple[str, ...]) -> bool:
    """Neither ``-o``, alone or in a cluster, nor a long option that writes or runs a program."""
    return not any(re.match(r"-[^-]*[oST]|--[octf]", word) for word in arguments)


def _git(arguments: tuple[str, ...]) -> bool:
    """A reading sub-command first (so no ``-c``), and nothing that writes or runs a program."""
    if not arguments:
        return False
    verb, *rest = arguments
    if verb in {"status", "log", "diff", "show", "rev-parse", "ls-files"}:
        return not any(word.startswith(("--ou", "--ext", "-O")) for word in rest)
    return verb == "branch" and set(rest) <= {"-a", "-r", "-v", "-vv", "--all", "--show-current"}


def _cd(arguments: tuple[str, ...]) -> bool:
    """Below where we are; ``cd`` alone goes home and ``cd -`` back."""
    return len(arguments) == 1 and _plain(arguments)


def _one_option_letter(arguments: tuple[str, ...]) -> bool:
    """``date +%F``, ``date -u``: nothing that sets the clock."""
    return all(word == "-u" or word.startswith("+") for word in arguments)


_CHECKS: Mapping[str, _Check] = MappingProxyType(
    {
        **dict.fromkeys(_READERS, _anything),
        "printf": _plain,
        "file": _plain,
        "uniq": _plain,
        "sort": _sort,
        "find": _find,
        "git": _git,
        "cd": _cd,
        "date": _one_option_letter,
    }
)


def is_harmless(part: Part) -> bool:
    """Whether this command may run without a question."""
    if part.assigns or part.writes or any(_leaves(target) for target in part.reads):
        return False
    if not part.words:
        return bool(part.reads)
    name, *arguments = part.words
    check = _CHECKS.get(name)  # the bare name only: a path may lead to another program
    if check is None or (part.dynamic and name != "echo"):
        return False
    if part.globs and check is not _anything:
        return False  # a file may be called "-delete", and `uniq *` writes the second one
    if name == "uniq" and len(arguments) > 1:
        return False  # its second operand is written
    return check(tuple(arguments)) and not any(_leaves(word) for word in arguments)


def _leaves(word: str) -> bool:
    """Whether a word may name something outside the working directory."""
    if "{" in word and ("," in word or ".." in word):
        return True  # brace expansion can spell anything
    if word.startswith("-") and "/" in word:
        return True  # a path glued to an option
    return bool(_LOOKS_OUTSIDE.search(word) or _HIDDEN_GLOB.search(word))
