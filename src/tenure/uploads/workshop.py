"""Has images and PDFs unpacked by a child of ours (`child.py`), and believes only its answers."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

import msgspec

from tenure.errors import BadValue, ConfigError, ProcessError, TooLarge
from tenure.lifecycle.deadline import deadline
from tenure.processes.python import python_argv
from tenure.uploads import limits

if TYPE_CHECKING:
    from tenure.lifecycle.scope import Scope
    from tenure.processes.spawn import Process, Spawner

MODULE = "tenure.uploads.child"
DEADLINE_S = 60.0
"""For one file, the child's start included."""
READ_S = 30
"""Of it for the text of a PDF; what was read by then counts."""
ANSWER_BYTES_MAX = 8 * 1024 * 1024
INSTALL = "pip install 'tenure[files]'"


class Told(msgspec.Struct, frozen=True):
    """What the child says of a content, besides bytes."""

    refused: str = ""
    missing: str = ""
    """A package that is not installed."""
    type: Literal["", "image/png", "image/jpeg", "image/gif", "image/webp"] = ""
    width: int = 0
    height: int = 0
    pages: int = 0
    cut: bool = False


class Made(msgspec.Struct, frozen=True):
    """What was made of a content. No bytes: it can stay as it is, or has no text."""

    told: Told
    body: bytes


class Workshop:
    """Starts the children. Owns nothing; each ends with the scope that is given for it.

    Args:
        spawner: starts them.
    """

    def __init__(self, spawner: Spawner) -> None:
        self._spawner = spawner

    async def image(self, content: bytes, name: str, scope: Scope) -> Made:
        """An image as providers take it: upright, in a usual form, not too large.

        Raises:
            BadValue: it is damaged, or unpacks to too much; one sentence.
            ConfigError: the library for that is not installed.
        """
        most = (limits.KEPT_EDGE_MAX, limits.KEPT_BYTES_MAX, limits.PIXELS_MAX)
        return await self._ask(scope, content, name, "image", *most)

    async def pdf(self, content: bytes, name: str, scope: Scope) -> Made:
        """How many pages a PDF has, and its text.

        Raises:
            As `image`.
        """
        most = (limits.PDF_PAGES_MAX, limits.TEXT_CHARS_MAX, READ_S)
        return await self._ask(scope, content, name, "pdf", *most)

    async def _ask(self, scope: Scope, content: bytes, name: str, job: str, *most: int) -> Made:
        argv = python_argv(MODULE, job, *map(str, most))
        process = await self._spawner.spawn(
            scope, argv, stdin="pipe", stderr="null", label=f"reader of {job}s", grace_s=0.5
        )
        try:
            async with deadline(scope.clock, DEADLINE_S):
                raw = await _answer(process, content)
        except TimeoutError:
            raise BadValue(
                f"{name} could not be read within {DEADLINE_S:.0f} s; make it smaller."
            ) from None
        finally:
            await process.stop()
        return _checked(raw, name)


async def _answer(process: Process, content: bytes) -> bytes:
    """Give it the content, and take what it says to the end."""
    assert process.stdout is not None
    try:
        await process.write(content)
    except ProcessError:
        return b""  # it has died, and its answer says of what, if it could give one
    process.close_stdin()
    answer = bytearray()
    while piece := await process.stdout.read():
        answer += piece
        if len(answer) > ANSWER_BYTES_MAX:
            raise TooLarge("What was read in the file is too much; make it smaller.")
    return bytes(answer)


def _checked(raw: bytes, name: str) -> Made:
    line, _, body = raw.partition(b"\n")
    try:
        told = msgspec.json.decode(line, type=Told)
    except msgspec.DecodeError:  # it was ended: by a limit, or by a fault of a library
        raise BadValue(f"{name} could not be read: it needs too much memory or time.") from None
    if told.missing:
        raise ConfigError(
            f"{name} cannot be read: the package {told.missing} is not installed; run {INSTALL}."
        )
    if told.refused:
        raise BadValue(f"{name} {told.refused}.")
    return Made(told, body)


def plain_name(name: str) -> str:
    """A name for people and the model: the last component, without control characters."""
    last = PurePath(name.replace("\\", "/")).name
    shown = "".join(c if c.isprintable() else "_" for c in last).strip()
    return shown[-120:] or "file"
