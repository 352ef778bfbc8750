"""`tenure logs [-f] [ERROR-ID]`: the gateway's log as text."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tenure.cli.attach import Where

POLL_S = 0.5


def logs(where: Where, *, follow: bool, error_id: str, lines: int) -> int:
    """Print the newest lines, or those of one error; with `follow`, what comes after too."""
    path = where.home.logs / "gateway.log"
    if error_id:
        found = [line for file in _rotated(path) for line in _lines(file) if error_id in line]
        if not found:
            sys.stderr.write(f"No line in {where.home.logs} names {error_id}.\n")
            return 1
    else:
        found = [line for file in _rotated(path) for line in _lines(file)][-lines:]
        if not found:
            sys.stderr.write(f"The log {path} is empty.\n")
    for line in found:
        sys.stdout.write(text_of(line, whole=bool(error_id)))
    if follow:
        _follow(path)
    return 0


def text_of(line: str, *, whole: bool) -> str:
    """One JSON line as text; with `whole`, its traceback too."""
    try:
        record = json.loads(line)
    except ValueError:
        return line
    text = f"{record['at']} {record['level']:<7} {record['from']}: {record['message']}\n"
    if whole and "traceback" in record:
        text += record["traceback"] + "\n"
    return text


def _rotated(path: Path) -> list[Path]:
    """The files, oldest first."""
    older = sorted(path.parent.glob("gateway.log.*"), key=lambda p: -int(p.suffix[1:]))
    return [*older, path] if path.exists() else older


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)


def _follow(path: Path) -> None:
    try:
        for line in _tail(path):
            sys.stdout.write(text_of(line, whole=False))
            sys.stdout.flush()
    except KeyboardInterrupt:
        return


def _tail(path: Path) -> Iterator[str]:
    """Lines as they are added; a rotated file is followed to its successor."""
    position = path.stat().st_size if path.exists() else 0
    inode = path.stat().st_ino if path.exists() else 0
    while True:
        time.sleep(POLL_S)
        if not path.exists():
            continue
        now = path.stat()
        if now.st_ino != inode or now.st_size < position:
            inode, position = now.st_ino, 0
        if now.st_size > position:
            with path.open(encoding="utf-8", errors="replace") as file:
                file.seek(position)
                yield from file
                position = file.tell()
