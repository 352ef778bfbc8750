"""What comes on stdin for `tenure run`: the prompt, or what belongs to it.

Whether anything will come cannot be known: cron, CI and other programs leave pipes open into which
nobody writes. So with a prompt a pipe is waited for only until it shows data or its end, `SILENT_S`
at most; from the first byte on it is read to its end. ``-`` waits as long as it takes.
"""

from __future__ import annotations

import os
import select
import sys

from tenure.errors import BadValue, ConfigError
from tenure.protocol.messages import PROMPT_BYTES_MAX

SILENT_S = 3.0
"""How long stdin may show neither data nor its end, in seconds; then it is left alone."""


def prompt_from(words: list[str], stdin: int, *, silent_s: float = SILENT_S) -> str:
    """The prompt that the arguments and stdin make together.

    Args:
        words: the arguments; none, or only ``-``, take the prompt from stdin, a ``-`` at the end
            what belongs to it.
        stdin: its descriptor.
        silent_s: see `SILENT_S`.

    Raises:
        ConfigError: there is no prompt.
        BadValue: it is over 4 MiB.
        OSError: stdin was asked for and cannot be read.
    """
    forced = not words or words[-1] == "-"
    said = " ".join(words[:-1] if words[-1:] == ["-"] else words)
    # An argument that is not in the locale's encoding comes in with its bytes escaped.
    said = said.encode(errors="surrogateescape").decode(errors="replace")
    if os.isatty(stdin):
        came = b""
        if forced and not said.strip():
            raise ConfigError("Give a prompt (tenure run 'what to do'), or pipe one in.")
    elif forced:
        came = _read(stdin)
    else:
        came = _offered(stdin, silent_s)
    parts = [part for part in (said, came.decode(errors="replace")) if part.strip()]
    text = "\n\n".join(parts)
    if not parts:
        raise ConfigError("The prompt is empty.")
    if len(text.encode()) > PROMPT_BYTES_MAX:
        raise BadValue(
            f"The prompt and what comes on stdin are over {PROMPT_BYTES_MAX >> 20} MiB together; "
            "put it into a file and name the file instead."
        )
    return text


def _offered(stdin: int, silent_s: float) -> bytes:
    """What is there without being asked for; nothing where there is nothing to read."""
    poll = select.poll()
    poll.register(stdin, select.POLLIN)
    if not poll.poll(silent_s * 1000):
        sys.stderr.write(
            f"stdin is open and silent for {silent_s:g} s, so it is left out "
            "(a last argument - waits for it, </dev/null saves the waiting)\n"
        )
        return b""
    try:
        return _read(stdin)
    except OSError:  # nohup gives one that cannot be read
        return b""


def _read(stdin: int) -> bytes:
    """Everything until the end, but not much more than a prompt may be."""
    pieces: list[bytes] = []
    left = PROMPT_BYTES_MAX + 1
    while left > 0 and (piece := os.read(stdin, min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
