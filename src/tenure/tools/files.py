"""Reading and changing single files: read, write, edit.

All work happens in threads, on descriptors found by `paths`. A write is atomic: a new file beside
the old one, then a rename.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import stat
from pathlib import Path
from typing import ClassVar, NamedTuple

import msgspec

from tenure.errors import ToolError
from tenure.lifecycle.threads import run_in_thread
from tenure.sandbox.base import ANY, Bounds
from tenure.tools.base import Effect, ToolContext, ToolResult, TypedTool
from tenure.tools.clip import clip
from tenure.tools.elsewhere import open_elsewhere
from tenure.tools.paths import Place, check_new_name, open_file, place_below

LINE_CHARS_MAX = 2_000
SCAN_BYTES_MAX = 256 * 1024 * 1024
"""How far `read` looks for its first line; reading so much takes under a second."""
EDIT_BYTES_MAX = 8 * 1024 * 1024
PROBE_BYTES = 8_192
"""A NUL among the first bytes means: binary."""


class ReadArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments of `read`."""

    path: str
    offset: int = 1
    limit: int = 2_000
    numbers: bool = False


class Read(TypedTool[ReadArgs]):
    """Part of a text file."""

    name: ClassVar[str] = "read"
    description = (
        "Read a text file: limit lines from line offset (first is 1). numbers=true numbers them."
    )
    effect: ClassVar[Effect] = Effect.READ
    args = ReadArgs

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max

    async def run(self, args: ReadArgs, ctx: ToolContext) -> ToolResult:
        """Read in a thread; also a whole output of the session, which results name."""
        if args.path.startswith(f"{ctx.spill_dir}/"):
            return await run_in_thread(ctx.scope, _read, ctx.spill_dir, args, self._bytes_max, ANY)
        if (files := ctx.sandbox.files) is not None:
            file = await open_elsewhere(files, args.path, ctx.bounds)
            return await run_in_thread(ctx.scope, _shown, file, args, self._bytes_max)
        return await run_in_thread(ctx.scope, _read, ctx.cwd, args, self._bytes_max, ctx.bounds)


def _read(root: Path, args: ReadArgs, bytes_max: int, bounds: Bounds) -> ToolResult:
    with place_below(root, args.path, bounds) as place:
        fd = open_file(place, args.path)
    with io.open(fd, "rb") as file:  # noqa: UP020 - a descriptor
        return _shown(file, args, bytes_max)


def _shown(file: io.BufferedReader, args: ReadArgs, bytes_max: int) -> ToolResult:
    if b"\0" in file.peek(PROBE_BYTES)[:PROBE_BYTES]:
        size = file.seek(0, io.SEEK_END)
        raise ToolError(f"{args.path} is a binary file of {size} bytes.")
    page = _page(file, args, bytes_max)
    if not page.lines:
        if page.total == 0:
            return ToolResult("(empty file)", summary=f"{args.path}: empty")
        raise ToolError(f"{args.path} has {page.total} lines; offset {args.offset} is behind them.")
    text = "".join(page.lines)
    last = page.first + len(page.lines) - 1
    if page.more:
        text += f"\n[… more lines; go on with offset {last + 1} …]"
    return ToolResult(text, summary=f"{args.path}: lines {page.first}-{last}")


class _Page(NamedTuple):
    lines: list[str]
    first: int
    total: int
    """Lines seen; all of the file's if `more` is False."""
    more: bool


def _page(file: io.BufferedReader, args: ReadArgs, bytes_max: int) -> _Page:
    first, wanted = max(1, args.offset), max(1, args.limit)
    lines: list[str] = []
    number = used = 0
    while raw := file.readline(LINE_CHARS_MAX * 4):
        number += 1
        while not raw.endswith(b"\n") and (rest := file.readline(LINE_CHARS_MAX * 4)):
            raw = raw[: LINE_CHARS_MAX * 4] + rest[-1:]  # the middle of a huge line is left out
        if number < first:
            if file.tell() > SCAN_BYTES_MAX:
                raise ToolError(f"{args.path} is too large to look for line {first} in it.")
            continue
        used += len(raw)
        if len(lines) == wanted or (lines and used > bytes_max):
            return _Page(lines, first, number, more=True)
        lines.append(_shown_line(raw, number if args.numbers else None))
    return _Page(lines, first, number, more=False)


def _shown_line(raw: bytes, number: int | None) -> str:
    line = raw.decode("utf-8", "replace")
    if len(line) > LINE_CHARS_MAX:
        line = line[:LINE_CHARS_MAX] + " [… long line cut …]\n"
    return line if number is None else f"{number}\t{line}"


class WriteArgs(msgspec.Struct, frozen=True):
    """Arguments of `write`."""

    path: str
    content: str


class Write(TypedTool[WriteArgs]):
    """A whole file."""

    name: ClassVar[str] = "write"
    description = "Create or replace a file."
    effect: ClassVar[Effect] = Effect.WRITE
    args = WriteArgs

    async def run(self, args: WriteArgs, ctx: ToolContext) -> ToolResult:
        """Write in a thread, which a cancellation lets finish: the file is old or new, whole."""
        if (files := ctx.sandbox.files) is not None:
            content = _encoded(args.content)
            new = await files.write(args.path, content, ctx.bounds)
            return _written(args, args.path, content, new=new)
        return await run_in_thread(ctx.scope, _write, ctx.cwd, args, ctx.bounds)


def _write(root: Path, args: WriteArgs, bounds: Bounds) -> ToolResult:
    content = _encoded(args.content)
    with place_below(root, args.path, bounds, make_parents=True) as place:
        before = _state_of(place, args.path)
        if before is None:
            check_new_name(place.name)
        replace_file(place, content, None if before is None else before.st_mode)
    return _written(args, place.shown, content, new=before is None)


def _written(args: WriteArgs, shown: str, content: bytes, *, new: bool) -> ToolResult:
    lines = args.content.count("\n") + (not args.content.endswith("\n") and bool(args.content))
    verb = "Created" if new else "Replaced"
    told = "1 line" if lines == 1 else f"{lines} lines"
    text = f"{verb} {shown} ({told}, {len(content)} bytes)."
    return ToolResult(text, summary=text)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolError("The content has characters that cannot be written as UTF-8.") from None


def _state_of(place: Place, shown: str) -> os.stat_result | None:
    """The file's state, or None if there is none.

    Raises:
        ToolError: something else is there.
    """
    try:
        state = os.stat(place.name, dir_fd=place.dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(state.st_mode):
        raise ToolError(f"{shown} is there already and is no regular file.")
    return state


def replace_file(place: Place, content: bytes, mode: int | None) -> None:
    """Put `content` at `place`, atomically.

    Where the file system can do it the content has no name until it is whole: a kill meanwhile
    leaves nothing in the user's folder.

    Args:
        place: where.
        content: all of it.
        mode: permissions to keep; None for a new file's.

    Raises:
        OSError: nothing has changed.
    """
    fresh = f".{place.name[:80]}.{secrets.token_hex(6)}.tmp"
    fd, named = _open_fresh(place, fresh)
    try:
        with io.open(fd, "wb") as file:  # noqa: UP020 - a descriptor
            file.write(content)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            if not named:
                os.link(f"/proc/self/fd/{fd}", fresh, dst_dir_fd=place.dir_fd, follow_symlinks=True)
        os.replace(fresh, place.name, src_dir_fd=place.dir_fd, dst_dir_fd=place.dir_fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh, dir_fd=place.dir_fd)
        raise


def _open_fresh(place: Place, fresh: str) -> tuple[int, bool]:
    """A new file beside `place`, and whether it has its name already."""
    nameless = getattr(os, "O_TMPFILE", 0)
    if nameless and Path("/proc/self/fd").is_dir():
        with contextlib.suppress(OSError):  # not every file system can
            flags = nameless | os.O_WRONLY | os.O_CLOEXEC
            return os.open(".", flags, 0o666, dir_fd=place.dir_fd), False
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(fresh, flags, 0o666, dir_fd=place.dir_fd), True


class EditArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments of `edit`."""

    path: str
    old: str
    new: str
    all: bool = False


class Edit(TypedTool[EditArgs]):
    """An exact replacement in a file."""

    name: ClassVar[str] = "edit"
    description = (
        "Replace the exact text old by new in a file. old must occur once; all=true replaces every "
        "occurrence."
    )
    effect: ClassVar[Effect] = Effect.WRITE
    args = EditArgs

    async def run(self, args: EditArgs, ctx: ToolContext) -> ToolResult:
        """Edit in a thread, which a cancellation lets finish."""
        if (files := ctx.sandbox.files) is not None:
            raw = await files.read(args.path, ctx.bounds)
            text, count = _replaced(_decoded(raw, args.path), args)
            await files.write(args.path, _encoded(text), ctx.bounds)
            return _edited(count, args.path)
        return await run_in_thread(ctx.scope, _edit, ctx.cwd, args, ctx.bounds)


def _edit(root: Path, args: EditArgs, bounds: Bounds) -> ToolResult:
    with place_below(root, args.path, bounds) as place:
        fd = open_file(place, args.path)
        with io.open(fd, "rb") as file:  # noqa: UP020 - a descriptor
            before = os.fstat(fd)
            raw = file.read(EDIT_BYTES_MAX + 1)
        if len(raw) > EDIT_BYTES_MAX:
            raise ToolError(f"{args.path} is over {EDIT_BYTES_MAX} bytes; edit it with a command.")
        text, count = _replaced(_decoded(raw, args.path), args)
        now = _state_of(place, args.path)
        if now is None or (now.st_ino, now.st_mtime_ns) != (before.st_ino, before.st_mtime_ns):
            raise ToolError(f"{args.path} changed while it was edited; read it again.")
        replace_file(place, _encoded(text), before.st_mode)
    return _edited(count, place.shown)


def _edited(count: int, shown: str) -> ToolResult:
    said = f"Replaced {count} occurrence{'s' * (count != 1)} in {shown}."
    return ToolResult(said, summary=said)


def _decoded(raw: bytes, path: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ToolError(f"{path} is not UTF-8 text; edit it with a command.") from None


def _replaced(text: str, args: EditArgs) -> tuple[str, int]:
    """The new text, and how often `old` was replaced in it."""
    if not args.old:
        raise ToolError("old is empty; use write to create a file.")
    if args.old == args.new:
        raise ToolError("old and new are the same; nothing would change.")
    old, new = args.old, args.new
    count = text.count(old)
    if count == 0 and "\r\n" in text and "\r" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
        count = text.count(old)
    if count == 0:
        raise ToolError(
            f"{args.path} does not contain {clip(args.old, 120)!r}; {_hint(text, old)}."
        )
    if count > 1 and not args.all:
        raise ToolError(
            f"{args.path} contains that text {count} times; add surrounding lines or set all=true."
        )
    return text.replace(old, new), count


def _hint(text: str, old: str) -> str:
    squeezed = " ".join(old.split())
    if squeezed and squeezed in " ".join(text.split()):
        return "it does with other spaces or line breaks: copy it exactly"
    return "read it again"
