"""The image in the clipboard of the gateway's machine, through whichever program is there."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tenure.errors import ProcessError
from tenure.lifecycle.deadline import deadline
from tenure.sessions.sources import Offered
from tenure.uploads.limits import IMAGE_BYTES_MAX

if TYPE_CHECKING:
    from tenure.sessions.actor import Session

WAIT_S = 5.0
PROGRAMS = (
    ("wl-paste", "--no-newline", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)
"""Wayland, X11 and macOS; the first that gives an image counts."""


async def image_in_clipboard(session: Session) -> Offered | str:
    """The image, or why there is none, in a sentence."""
    path = session.ports.spawner.path
    there = [argv for argv in PROGRAMS if shutil.which(argv[0], path=path)]
    for argv in there:
        content = await _output(session, argv)
        if content:
            return Offered("clipboard.png", content)
    if not there:
        names = ", ".join(argv[0] for argv in PROGRAMS)
        return f"No program that reads the clipboard is installed (one of {names})."
    return "There is no image in the clipboard."


async def _output(session: Session, argv: tuple[str, ...]) -> bytes:
    """What a program writes; nothing if it fails, or takes too long."""
    spawner = session.ports.spawner
    try:
        process = await spawner.spawn(
            session.scope, argv, env=spawner.screen_environment(), stderr="null", grace_s=0.5
        )
    except ProcessError:
        return b""
    found = bytearray()
    try:
        async with deadline(session.ports.clock, WAIT_S):
            assert process.stdout is not None
            while len(found) <= IMAGE_BYTES_MAX and (piece := await process.stdout.read()):
                found += piece
            if len(found) > IMAGE_BYTES_MAX:
                return bytes(found)  # whoever takes it says that it is too large
            return bytes(found) if await process.wait() == 0 else b""
    except TimeoutError:
        return b""
    finally:
        await process.stop()
