"""Finding things: list, glob, search. All bounded, none follows a link out of the tree."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import msgspec

from tenure.errors import ProcessError, ToolError
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.threads import run_in_thread
from tenure.sandbox.base import Bounds, Files, Order, Running
from tenure.tools.base import Effect, ToolContext, ToolResult, TypedTool
from tenure.tools.elsewhere import files_elsewhere, names_elsewhere, run_elsewhere
from tenure.tools.paths import open_folder, place_below

ENTRIES_MAX = 500
SCANNED_MAX = 200_000
"""Entries that one glob looks at; about a second."""
MATCHES_PER_FILE = "50"
SEARCH_S = 30.0
SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv"})
"""Folders that glob and search leave out unless the path leads into them."""


class ListArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments of `list`."""

    path: str = "."


class List(TypedTool[ListArgs]):
    """The entries of a folder."""

    name: ClassVar[str] = "list"
    description = "List a folder: how many files, then their names."
    effect: ClassVar[Effect] = Effect.READ
    args = ListArgs

    def __init__(self, entries_max: int | None = None) -> None:
        self._entries_max = entries_max

    async def run(self, args: ListArgs, ctx: ToolContext) -> ToolResult:
        """List in a thread."""
        limit = self._entries_max or ENTRIES_MAX
        if (files := ctx.sandbox.files) is not None:
            return _listed(args, await names_elsewhere(files, args.path, ctx.bounds), limit)
        return await run_in_thread(ctx.scope, _list, ctx.cwd, args, limit, ctx.bounds)


def _list(root: Path, args: ListArgs, entries_max: int, bounds: Bounds) -> ToolResult:
    with place_below(root, args.path, bounds) as place:
        fd = open_folder(place, args.path)
        try:
            with os.scandir(fd) as entries:
                names = sorted(
                    _entry_name(entry)
                    for entry in entries
                    if bounds.shows(root, posixpath.normpath(f"{place.shown}/{entry.name}"))
                )
        finally:
            os.close(fd)
    return _listed(args, names, entries_max)


def _listed(args: ListArgs, names: list[str], entries_max: int) -> ToolResult:
    summary = f"{args.path}: {len(names)} entries"
    told = _told(names, summary, "(empty folder)", entries_max)
    return msgspec.structs.replace(told, text=f"{_counted(names)}\n{told.text}") if names else told


def _counted(names: list[str]) -> str:
    """How many of each kind: models count badly, so the list says it first."""
    folders = sum(name.endswith("/") for name in names)
    links = sum(name.endswith("@") for name in names)
    counts = ((len(names) - folders - links, "file"), (folders, "folder"), (links, "link"))
    told = [f"{n} {word}{'' if n == 1 else 's'}" for n, word in counts if n or word == "file"]
    return ", ".join(told) + ":"


def _entry_name(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return f"{entry.name}@"
    return f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name


def _told(
    names: list[str], summary: str, nothing: str, entries_max: int | None = None
) -> ToolResult:
    limit = entries_max or ENTRIES_MAX
    text = "\n".join(names[:limit]) or nothing
    if len(names) > limit:
        text += f"\n[… {len(names) - limit} more …]"
    return ToolResult(text.encode("utf-8", "replace").decode(), summary=summary)


class GlobArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments of `glob`."""

    pattern: str
    path: str = "."


class Glob(TypedTool[GlobArgs]):
    """Files by name."""

    name: ClassVar[str] = "glob"
    description = (
        "Find files by pattern, such as **/*.py; without a slash it matches names anywhere."
    )
    effect: ClassVar[Effect] = Effect.READ
    args = GlobArgs

    async def run(self, args: GlobArgs, ctx: ToolContext) -> ToolResult:
        """Search in a thread."""
        if (files := ctx.sandbox.files) is not None:
            return await _glob_elsewhere(ctx, files, args)
        return await run_in_thread(ctx.scope, _glob, ctx.cwd, args, ctx.bounds)


async def _glob_elsewhere(ctx: ToolContext, files: Files, args: GlobArgs) -> ToolResult:
    matches = pattern_matcher(args.pattern)
    root, bounds = ctx.cwd, ctx.bounds
    found_at = await files.find(args.path or ".", bounds)
    base = "" if found_at == "." else f"{found_at}/"
    paths = await files_elsewhere(ctx, found_at, SKIPPED)

    def match() -> list[str]:
        named = [(path, path if "/" in args.pattern else path.rpartition("/")[2]) for path in paths]
        found = sorted(base + path for path, name in named if matches.fullmatch(name))
        return [path for path in found if bounds.shows(root, path)]

    found = await run_in_thread(ctx.scope, match)
    return _told(found, f"{args.pattern}: {len(found)} files", "(no files match)")


def _glob(root: Path, args: GlobArgs, bounds: Bounds) -> ToolResult:
    matches = pattern_matcher(args.pattern)
    found: list[str] = []
    with place_below(root, args.path, bounds) as place:
        fd = open_folder(place, args.path)
        base = "" if place.shown == "." else f"{place.shown}/"
        try:
            for scanned, path in enumerate(_files(fd)):
                if scanned >= SCANNED_MAX or len(found) > 10 * ENTRIES_MAX:
                    found.append("[… the tree is larger than was searched …]")
                    break
                name = path if "/" in args.pattern else path.rpartition("/")[2]
                if matches.fullmatch(name) and bounds.shows(root, base + path):
                    found.append(base + path)
        finally:
            os.close(fd)
    return _told(sorted(found), f"{args.pattern}: {len(found)} files", "(no files match)")


def _files(fd: int) -> Iterator[str]:
    """Paths of files below an open folder; links are entries, never ways."""
    for folder, folders, files, _fd in os.fwalk(".", dir_fd=fd, follow_symlinks=False):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        below = folder[2:]
        for name in files:
            yield f"{below}/{name}" if below else name


def pattern_matcher(pattern: str) -> re.Pattern[str]:
    """A glob as a regular expression that cannot backtrack badly: ``**/``, ``**``, ``*``, ``?``."""
    if len(pattern) > 300 or pattern.count("*") > 12:
        raise ToolError("The pattern is too long; use fewer stars.")
    out: list[str] = []
    for piece in re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", pattern.removeprefix("./")):
        wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
        out.append(wild.get(piece) or re.escape(piece))
    return re.compile("".join(out), re.DOTALL)


class SearchArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments of `search`."""

    pattern: str
    path: str = "."
    glob: str = ""


class Search(TypedTool[SearchArgs]):
    """Text in files.

    The matching runs in a child (ripgrep, else grep), so that no pattern can hold the gateway.
    """

    name: ClassVar[str] = "search"
    description = (
        "Search files for a regular expression (extended syntax); glob limits the file names."
    )
    effect: ClassVar[Effect] = Effect.READ
    args = SearchArgs

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max

    async def run(self, args: SearchArgs, ctx: ToolContext) -> ToolResult:
        """Run the child in the folder that was found; cancellation ends it."""
        if "\0" in args.pattern + args.glob:
            raise ToolError("A pattern cannot contain a NUL character.")
        if (files := ctx.sandbox.files) is not None:
            grep = tuple(_grep(args, await files.find(args.path, ctx.bounds)))
            return self._told(args, *await run_elsewhere(ctx, grep, self._bytes_max))
        folder, target = await run_in_thread(
            ctx.scope, _search_place, ctx.cwd, args.path, ctx.bounds
        )
        process = await self._start(args, ctx, folder, target)
        try:
            async with deadline(ctx.clock, SEARCH_S):
                output = await _read_some(process, self._bytes_max)
                status = None if len(output) > self._bytes_max else await process.wait()
        except TimeoutError:
            raise ToolError(f"The search took over {SEARCH_S:.0f} s; narrow it down.") from None
        finally:
            await process.stop()
        return self._told(args, output, status)

    async def _start(
        self, args: SearchArgs, ctx: ToolContext, folder: Path, target: str
    ) -> Running:
        if ctx.sandbox.hidden:  # what is hidden from commands is then hidden from this one
            argv = _ripgrep(args, target) if shutil.which("rg") else _grep(args, target)
            order = Order(tuple(argv), stderr="null", label="search")
            return await ctx.sandbox.start(ctx.scope, order)
        for argv in (_ripgrep(args, target), _grep(args, target)):
            try:
                return await ctx.spawner.spawn(
                    ctx.scope,
                    argv,
                    cwd=folder,
                    stderr="null",
                    label="search",
                    owner=ctx.session_id,
                )
            except ProcessError:
                continue  # not installed; the next one
        raise ToolError("Neither rg nor grep can be started; install ripgrep.")

    def _told(self, args: SearchArgs, output: bytes, status: int | None) -> ToolResult:
        if status == 1 or (status == 0 and not output):
            return ToolResult("(no matches)", summary=f"{args.pattern}: no matches")
        if status not in {0, None} and not output:
            raise ToolError("The search failed; is the pattern an extended regular expression?")
        text = output[: self._bytes_max].decode("utf-8", "replace")
        count = text.count("\n")
        if status is None:
            text += "\n[… more matches; narrow the search …]"
        return ToolResult(text, summary=f"{args.pattern}: {count} lines")


def _search_place(root: Path, path: str, bounds: Bounds) -> tuple[Path, str]:
    """The folder to start in and the target there, checked. Links are resolved already.

    The child opens the folder by its path once more; a swap for a link in between could lead it
    elsewhere, to read only. What it finds there is shown to nobody but this session.
    """
    with place_below(root, path, bounds) as place:
        state = os.stat(place.name, dir_fd=place.dir_fd, follow_symlinks=False)
    if not (stat.S_ISDIR(state.st_mode) or stat.S_ISREG(state.st_mode)):
        raise ToolError(f"{path} is neither a file nor a folder.")
    return root, place.shown


def _ripgrep(args: SearchArgs, target: str) -> list[str]:
    argv = ["rg", "--no-config", "--line-number", "--no-heading", "--with-filename"]
    argv += ["--color=never", "--max-columns=300", f"--max-count={MATCHES_PER_FILE}"]
    argv += ["--sort=path", *(["--glob", args.glob] if args.glob else [])]
    # Without these, what is skipped would depend on which of the two programs is installed.
    argv += [word for name in sorted(SKIPPED) for word in ("--glob", f"!{name}")]
    argv += ["--hidden", "--no-ignore"]
    return [*argv, "-e", args.pattern, "--", target]


def _grep(args: SearchArgs, target: str) -> list[str]:
    argv = ["grep", "-rnIHE", "-D", "skip", "-m", MATCHES_PER_FILE, "--color=never"]
    argv += [f"--exclude-dir={name}" for name in sorted(SKIPPED)]
    argv += [f"--include={args.glob}"] if args.glob else []
    return [*argv, "-e", args.pattern, "--", target]


async def _read_some(process: Running, bytes_max: int) -> bytes:
    """Output up to its end, or until it is over the limit."""
    assert process.stdout is not None
    output = bytearray()
    while len(output) <= bytes_max and (piece := await process.stdout.read()):
        output += piece
    return bytes(output)
