"""Where a file for a prompt comes from: a path on this machine, a data URL, base64, the clipboard.

A path is judged as the session's `read` tool would be: a rule that denies it denies this too, and
what a sandbox keeps out of sight stays there. A path outside the working directory is one that the
tool could never read; naming it is the owner's right, from this machine only, and never leads to
what keeps keys (`SECRETS`) or to the gateway's own home.
"""

from __future__ import annotations

import base64
import binascii
import io
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from tenure.agent.approvals import Call, Deny, beyond, decide
from tenure.errors import BadValue, NotFound, TooLarge, ToolDenied, ToolError
from tenure.lifecycle.threads import run_in_thread
from tenure.sandbox.base import Bounds
from tenure.sandbox.bubblewrap import SECRETS, SYSTEM_SECRETS
from tenure.sessions.asking import TurnAsker
from tenure.tools.base import Effect
from tenure.tools.paths import open_file, place_below
from tenure.uploads.limits import FILE_BYTES_MAX, IMAGE_BYTES_MAX, PDF_BYTES_MAX

if TYPE_CHECKING:
    from tenure.agent.ports import Policy
    from tenure.sessions.actor import Session

BYTES_MAX = max(IMAGE_BYTES_MAX, PDF_BYTES_MAX, FILE_BYTES_MAX)
_KERNEL = ("/proc", "/sys", "/dev")
_DATA_URL = re.compile(r"data:[^,]{0,200};base64,", re.IGNORECASE)
_TOKEN = re.compile(r"""'([^']+)'|"([^"]+)"|((?:\\.|[^\s\\])+)""")


class Offered(NamedTuple):
    """A file that somebody wants to attach."""

    name: str
    content: bytes
    path: str = ""
    """Where tools can read it, absolute; empty: nowhere yet."""


class _Named(NamedTuple):
    """What is needed to judge a path, and to open it."""

    path: Path
    root: Path
    """The working directory; links resolved."""
    elsewhere: bool
    """The working directory is on another machine, or in a container."""
    hidden: tuple[Path, ...]
    policy: Policy
    forbidden: tuple[Path, ...]


def spellings(text: str) -> list[tuple[str, str]]:
    """What a dropped or typed text may mean: a path, and what was said after it. Pure."""
    whole = text.strip()
    if not whole or "\n" in whole or "\0" in whole or len(whole) > 8_192:
        return []
    found = [(whole, "")]
    if token := _TOKEN.match(whole):
        quoted = token[1] or token[2]
        path = quoted or re.sub(r"\\(.)", r"\1", token[3])
        found.append((path, whole[token.end() :].strip()))
    return [(_unwrapped(path), rest) for path, rest in dict.fromkeys(found)]


def _unwrapped(path: str) -> str:
    return unquote(path.removeprefix("file://")) if path.startswith("file:///") else path


async def from_path(session: Session, path: str, *, near: bool) -> Offered:
    """Read a file of this machine.

    Args:
        session: whose rules, sandbox and working directory count.
        path: absolute, below ``~``, or relative to the working directory.
        near: whether whoever asks is on this machine.

    Raises:
        NotFound: there is no such file.
        ToolDenied: a rule, the sandbox or the place forbids it.
        BadValue: it is no regular file, or outside of what may be named.
        TooLarge: over every limit.
    """
    sandbox = await session.work.open()
    home = session.ports.user_home
    full = Path(path.replace("~", str(home), 1) if path.startswith("~/") else path)
    named = _Named(
        Path(session.cwd) / full,
        Path(session.cwd),
        sandbox.files is not None,
        sandbox.hidden,
        TurnAsker(session.questions, "", session.work).policy(),
        (
            *map(Path, SYSTEM_SECRETS),
            *(home / name for name in SECRETS),
            *session.ports.private,
        ),
    )
    try:
        return await run_in_thread(session.scope, _read, named, near)
    except ToolDenied:
        raise
    except ToolError as exc:
        raise BadValue(exc.message) from None


def _read(named: _Named, near: bool) -> Offered:
    """Judge, then open what was judged. Blocks."""
    shown = str(named.path)[:200]
    try:
        real, root = named.path.resolve(strict=True), named.root.resolve()
    except (OSError, RuntimeError, ValueError) as exc:
        raise NotFound(f"There is no file {shown!r} on the gateway's machine.") from exc
    named = named._replace(root=root)
    if not named.elsewhere and real.is_relative_to(root):
        content = _read_inside(named, real)
        return Offered(named.path.name, content, str(real))
    _check_outside(named, real, shown, near=near)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(real, flags)
    except OSError as exc:
        raise BadValue(f"{shown!r} cannot be opened: {exc.strerror}.") from None
    return Offered(named.path.name, _whole(fd, shown))


def _read_inside(named: _Named, real: Path) -> bytes:
    """As the `read` tool: the path as it is spelled and the one that it leads to are judged."""
    for path in {str(real), os.path.normpath(named.path)}:
        if Path(path).is_relative_to(named.root):
            _judge(named, path)
    inside = str(real.relative_to(named.root))
    bounds = Bounds(named.hidden, beyond(named.policy, _call(named, inside)))
    with place_below(named.root, inside, bounds) as place:
        fd = open_file(place, inside)
    return _whole(fd, inside)


def _judge(named: _Named, path: str) -> None:
    verdict = decide(named.policy, _call(named, path))
    if isinstance(verdict, Deny):
        raise ToolDenied(verdict.reason)


def _call(named: _Named, path: str) -> Call:
    return Call("", "read", Effect.READ, {"path": path}, str(named.root))


def _check_outside(named: _Named, real: Path, shown: str, *, near: bool) -> None:
    """What the tool can never read, the owner may name: from this machine, and no secrets."""
    _judge(named, str(named.root))  # a rule may deny reading as such
    if not near:
        raise ToolDenied(
            f"{shown!r} is outside the working directory, and only clients on the gateway's own "
            "machine may name such a file; send its content instead (data_url)."
        )
    for place in named.forbidden:
        if real.is_relative_to(place) or named.path.is_relative_to(place):
            raise ToolDenied(f"{shown!r} lies in {place}, which keeps secrets; it is not attached.")
    if any(real.is_relative_to(place) for place in _KERNEL):
        raise BadValue(f"{shown!r} is no regular file.")


def _whole(fd: int, shown: str) -> bytes:
    """All of an open file, which is closed."""
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):  # asked first: what cannot be wrapped would stay open
        os.close(fd)
        kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise BadValue(f"{shown!r} is {kind}; attach its files one by one.")
    with io.open(fd, "rb") as file:  # noqa: UP020 - a descriptor
        content = file.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise TooLarge(f"{shown!r} is over {BYTES_MAX >> 20} MiB, the limit for files of prompts.")
    return content


def from_base64(name: str, text: str) -> Offered:
    """A content as a client sends it: base64, or a data URL with it. Large ones take a while.

    Raises:
        BadValue: it is neither.
    """
    begin = _DATA_URL.match(text)
    try:
        packed = "".join(text[begin.end() if begin else 0 :].split())
        content = base64.b64decode(packed, validate=True)
    except (binascii.Error, ValueError):
        raise BadValue(f"The content of {name[:80] or 'the file'} is no base64.") from None
    return Offered(name or "file", content)
