"""Using a browser: looking at pages and acting on them; and keeping what they show or offer.

Opening a host is asked about by its name. Acting (clicking, typing, choosing, downloading) goes
without asking on hosts that were opened so, and not at all on others: a page may lead anywhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable
from pathlib import Path
from typing import ClassVar, Literal

import msgspec

from tenure.browser.lending import Browsers
from tenure.browser.protocol import Action, Outcome, Rules, Verb
from tenure.browser.visit import Visits
from tenure.config import Config
from tenure.errors import ToolError
from tenure.lifecycle.threads import call_in_thread, run_in_thread
from tenure.sandbox.base import ANY, FILE_BYTES_MAX, Bounds
from tenure.tools.base import Effect, ToolContext, ToolResult, TypedTool
from tenure.tools.clip import clip
from tenure.tools.paths import check_new_name, place_below

NAME_CHARS_MAX = 100
TEXT_CHARS_MAX = 200_000
"""Typed at once."""
SAME_NAME_MAX = 100
"""How many files of one name are kept side by side."""
_PIECE = 1024 * 1024


class BrowserArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments of `browser`."""

    action: Literal[
        "navigate", "snapshot", "click", "type", "press", "select", "scroll", "back", "tabs",
        "console", "network",
    ]  # fmt: skip
    url: str = ""
    ref: str = ""
    text: str = ""
    submit: bool = False


class _Browsing:
    """What both tools do: an action in the session's pages."""

    def __init__(self, config: Config, browsers: Browsers) -> None:
        self._config = config.browser
        self._browsers = browsers
        self._bytes_max = config.limits.tool_output_bytes_max
        self._rules = Rules(
            allow=config.web.allow,
            proxy=config.web.proxy,
            timeout_s=config.web.timeout_s,
            text_bytes_max=self._bytes_max - 2_000,
            file_bytes_max=config.browser.file_mib << 20,
            pages_max=config.browser.pages_max,
        )

    async def act(self, action: Action, ctx: ToolContext) -> Outcome:
        """Do it. Raises ToolError."""
        visits = Visits.of(ctx.state, ctx.session, ctx.session_id, self._browsers)
        return await visits.act(action, self._config, self._rules)


class BrowserTool(TypedTool[BrowserArgs]):
    """Looking and acting.

    Args:
        config: limits and rules.
        browsers: who lends one.
    """

    name: ClassVar[str] = "browser"
    description = (
        "A browser with pages of its own. navigate (url) and each act show the page with element "
        "refs; click, select, type (ref, text, submit), press (text: key), scroll, tabs (text)."
    )
    effect: ClassVar[Effect] = Effect.NETWORK
    args = BrowserArgs

    def __init__(self, config: Config, browsers: Browsers) -> None:
        self._browsing = _Browsing(config, browsers)
        self._bytes_max = config.limits.tool_output_bytes_max

    async def run(self, args: BrowserArgs, ctx: ToolContext) -> ToolResult:
        """Do one action."""
        if bool(args.url) != (args.action == "navigate"):
            raise ToolError("navigate takes a url, and nothing else does.")
        if len(args.text) > TEXT_CHARS_MAX:
            raise ToolError(
                f"The text has more than {TEXT_CHARS_MAX} characters; type less at once."
            )
        action = Action(args.action, args.url, args.ref, args.text, args.submit)
        outcome = await self._browsing.act(action, ctx)
        summary = f"{args.action}: {outcome.url[:80]}".rstrip(": ")
        return ToolResult(clip(outcome.text, self._bytes_max) or "(done)", summary=summary)


class BrowserSaveArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments of `browser_save`."""

    what: Literal["screenshot", "pdf", "download"]
    ref: str = ""
    path: str = ""
    whole: bool = False


class BrowserSave(TypedTool[BrowserSaveArgs]):
    """Keeping a page, or a file that it offers, in the working directory.

    Args:
        config: limits and rules.
        browsers: who lends one.
    """

    name: ClassVar[str] = "browser_save"
    description = (
        "Save the browser's page as a screenshot (whole: all of it) or pdf, or the file that a ref "
        "offers (download). path: a new file; else a name is found."
    )
    effect: ClassVar[Effect] = Effect.WRITE
    args = BrowserSaveArgs

    def __init__(self, config: Config, browsers: Browsers) -> None:
        self._browsing = _Browsing(config, browsers)

    async def run(self, args: BrowserSaveArgs, ctx: ToolContext) -> ToolResult:
        """Have it made, then move it where it belongs; nothing is overwritten."""
        verb: Verb = args.what
        outcome = await self._browsing.act(Action(verb, ref=args.ref, whole=args.whole), ctx)
        kept = ctx.scope.own("browser file", Path(outcome.file), _remove)
        try:
            saved, size = await _keep(outcome, args.path, ctx)
        finally:
            await kept.release()
        told = f"{outcome.text}: saved as {saved} ({size} bytes)."
        return ToolResult(told, summary=f"{saved}, {size} bytes")


async def _keep(outcome: Outcome, path: str, ctx: ToolContext) -> tuple[str, int]:
    """Copy the file into the working directory, wherever that is; its path there and its size."""
    wanted = path or safe_name(outcome.name)
    files = ctx.sandbox.files
    if files is None:
        return await run_in_thread(
            ctx.scope, copy_new, Path(outcome.file), ctx.cwd, wanted, not path, ctx.bounds
        )
    content = await run_in_thread(ctx.scope, _read, Path(outcome.file))
    await files.write(wanted, content, ctx.bounds)
    return wanted, len(content)


def _read(file: Path) -> bytes:
    size = file.stat().st_size
    if size > FILE_BYTES_MAX:
        raise ToolError(f"{size} bytes are too many for a file that is not on this machine.")
    return file.read_bytes()


def copy_new(
    source: Path, root: Path, wanted: str, may_number: bool, bounds: Bounds = ANY
) -> tuple[str, int]:
    """Copy `source` to a new file below `root`; its path there and its size in bytes. Blocks.

    Args:
        source: ours.
        root: the working directory.
        wanted: the path in it.
        may_number: whether another name is found if that one is taken.
        bounds: what of the working directory may be touched.

    Raises:
        ToolError: it is taken, leads out of `root` or `bounds`, or cannot be written.
    """
    stem, dot, suffix = wanted.rpartition(".")
    for number in range(1, SAME_NAME_MAX + 1):
        path = wanted if number == 1 else f"{stem or suffix}-{number}{dot}{suffix if stem else ''}"
        with place_below(root, path, bounds, make_parents=True) as place:
            check_new_name(place.name)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                fd = os.open(place.name, flags, 0o666, dir_fd=place.dir_fd)
            except FileExistsError:
                if may_number:
                    continue
                raise ToolError(f"{path[:200]} is there already; choose another name.") from None
            try:
                return place.shown, _copy(source, fd)
            except BaseException:
                os.unlink(place.name, dir_fd=place.dir_fd)
                raise
    raise ToolError(f"There are {SAME_NAME_MAX} files like {wanted[:100]!r} already.")


def _copy(source: Path, fd: int) -> int:
    size = 0
    with os.fdopen(fd, "wb") as writing, source.open("rb") as reading:
        while piece := reading.read(_PIECE):
            writing.write(piece)
            size += len(piece)
    return size


def safe_name(name: str) -> str:
    """What a page wants a file to be called, as one plain name."""
    last = re.split(r"[/\\]", name)[-1]
    plain = re.sub(r"[^\w .()+-]", "_", last).strip(" .")
    stem, dot, suffix = plain.rpartition(".")
    if dot and 0 < len(suffix) <= 10:
        plain = f"{stem[: NAME_CHARS_MAX - len(suffix) - 1].rstrip(' .')}.{suffix}"
    plain = plain[:NAME_CHARS_MAX].strip(" .") or "download"
    try:
        check_new_name(plain)
    except ToolError:
        return f"_{plain}"
    return plain


def _remove(file: Path) -> Awaitable[object]:
    return call_in_thread(file.unlink, missing_ok=True)
