"""Logs: JSON lines in rotating 0600 files, without payloads, through one redactor.

Code logs facts (ids, counts, reasons), never prompts, outputs or arguments. The redactor at the
sink is the second line: it blanks what looks like a credential, and every secret it was told.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from io import TextIOWrapper

FILE_BYTES_MAX = 5 * 1024 * 1024
FILES_MAX = 5
LINE_CHARS_MAX = 16_384
_SHAPES = re.compile(
    r"(?i)(bearer\s+|token=|api[_-]?key[\"'=:\s]+|authorization[\"'=:\s]+)[^\s\"'&,}]+"
    r"|\b(?:sk|pk|rk|gsk|xai|ghp|gho|AIza)[-_A-Za-z0-9]{16,}"
)


class Redactor:
    """Blanks secrets in text. Holds the known ones; give it each secret once."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: set[str] = {s for s in secrets if len(s) >= 8}

    def know(self, secret: str) -> None:
        """Blank `secret` from now on (if it is long enough to be one)."""
        if len(secret) >= 8:
            self._secrets.add(secret)

    def __call__(self, text: str) -> str:
        """`text` with every secret blanked."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return _SHAPES.sub(lambda m: f"{m.group(1) or ''}***", text)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the traceback if any."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line."""
        line: dict[str, object] = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "from": record.name,
            "pid": record.process,
            "message": self._redactor(record.getMessage())[:LINE_CHARS_MAX],
        }
        if record.exc_info:
            line["traceback"] = self._redactor(self.formatException(record.exc_info))[
                -LINE_CHARS_MAX:
            ]
        return msgspec.json.encode(line).decode()


class PrivateRotatingFile(logging.handlers.RotatingFileHandler):
    """A rotating file that only its owner can read.

    A line that cannot be written (a full disk) is lost. That is said once, in a sentence; by
    default each one is told on stderr with its arguments, which no redactor has seen.
    """

    _told = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - of the library
        """Say the first time that lines are lost, and why. Called while the error is handled."""
        if self._told:
            return
        self._told = True
        error = sys.exc_info()[1]
        why = error.strerror if isinstance(error, OSError) else type(error).__name__
        with suppress(OSError, ValueError):  # there may be no stderr any more
            sys.stderr.write(
                f"tenure: {self.baseFilename} takes no line of {record.name} ({why}); lines are "
                "lost until it does, and this is not said again.\n"
            )

    def _open(self) -> TextIOWrapper:
        fd = os.open(
            self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        return os.fdopen(fd, "a", encoding="utf-8")


def open_log(folder: Path, level: str, redactor: Redactor) -> logging.Handler:
    """Send everything to ``gateway.log`` in `folder`; the caller owns the handler (`close_log`).

    Args:
        folder: made if missing (0700).
        level: debug, info, warning or error.
        redactor: applied to every line.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handler = PrivateRotatingFile(
        folder / "gateway.log", maxBytes=FILE_BYTES_MAX, backupCount=FILES_MAX, delay=True
    )
    handler.setFormatter(JsonFormatter(redactor))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.CRITICAL)  # libraries tell us by exceptions; what they log has data in it
    for ours in ("tenure", "asyncio"):
        logging.getLogger(ours).setLevel(level.upper())
    return handler


def close_log(handler: logging.Handler) -> None:
    """Stop logging to `handler` and close its file."""
    logging.getLogger().removeHandler(handler)
    with suppress(OSError):  # a full disk has not taken the last lines; the file is closed
        handler.close()
