"""The gateway's end of the browser: starts its host, speaks to it, and notices its end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import shutil
from pathlib import Path
from typing import Protocol

import msgspec

from tenure.browser.protocol import (
    LINE_BYTES_MAX,
    Action,
    Answer,
    Launch,
    Outcome,
    Ready,
    Request,
    Rules,
)
from tenure.errors import BrowserGone, ProcessError, ToolError
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.lease import Lease
from tenure.lifecycle.scope import Scope
from tenure.lifecycle.threads import call_in_thread
from tenure.processes.python import python_argv
from tenure.processes.spawn import Process, Spawner
from tenure.settings import BrowserConfig

log = logging.getLogger("tenure.browser")
START_S = 60.0
OPEN_S = 20.0
CLOSE_S = 5.0
ACT_S = 30.0
"""For one action, besides the time that a page may take to load."""
GRACE_S = 1.5
"""What the host's tree has for its end; its own closing begins with the end of its input."""
MODULE = "tenure.browser.host"
_ITS_OWN = ("TMPDIR", "HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
"""Variables that lead a browser to folders; all of them are one that is removed with it."""


class Browser(Protocol):
    """The seam to a browser: contexts that know nothing of each other."""

    @property
    def gone(self) -> str:
        """Why it has ended; "" while it runs."""

    async def wait_gone(self) -> str:
        """Wait until it has ended; why. Cancellable."""

    async def open(self, context: str, rules: Rules) -> None:
        """Make a context under a name that no other has.

        Raises:
            ToolError: it cannot be made. BrowserGone: the browser has ended.
        """

    async def act(self, context: str, action: Action) -> Outcome:
        """Do one thing in a context. Cancelling gives it up; the page may go on with it.

        Raises:
            ToolError: it cannot be done, or the context is not known (any more).
            BrowserGone: the browser has ended meanwhile; whether it was done is unknown.
        """

    async def close(self, context: str) -> None:
        """End a context with all that runs in it; nothing happens if it is not there."""

    def kill(self) -> None:
        """End the browser at once: it has stopped answering."""


class HostedBrowser:
    """A `Browser` in a host of ours. Made by `start_browser`; ends with the scope given there."""

    def __init__(self, scope: Scope, process: Process) -> None:
        self._scope = scope
        self._process = process
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._limits_s: dict[str, float] = {}
        self._rest = bytearray()
        self._gone = asyncio.Event()
        self.gone = ""
        self.version = ""
        self.pid = 0
        self.row: Lease[HostedBrowser] | None = None
        """Chromium in the census; without its pid once it has ended."""

    async def wait_gone(self) -> str:
        """See `Browser`."""
        await self._gone.wait()
        return self.gone

    async def open(self, context: str, rules: Rules) -> None:
        """See `Browser`."""
        self._limits_s[context] = rules.timeout_s + ACT_S
        try:
            await self._ask(Request(0, "open", context, rules=rules), OPEN_S)
        except TimeoutError:
            self.kill()
            raise ToolError(f"The browser did not open a page within {OPEN_S:.0f} s.") from None

    async def act(self, context: str, action: Action) -> Outcome:
        """See `Browser`."""
        limit_s = self._limits_s.get(context, ACT_S)
        try:
            answer = await self._ask(Request(0, "act", context, action=action), limit_s)
        except TimeoutError:
            raise ToolError(f"{action.verb} took longer than {limit_s:.0f} s.") from None
        return answer.outcome or Outcome()

    async def close(self, context: str) -> None:
        """See `Browser`."""
        self._limits_s.pop(context, None)
        try:
            await self._ask(Request(0, "close", context), CLOSE_S)
        except TimeoutError:
            self.kill()
        except ToolError as exc:  # it has gone, or is not known there
            log.debug("Context %s: %s", context, exc.message)

    def kill(self) -> None:
        """See `Browser`."""
        self._end("it stopped answering")
        self._process.kill()

    async def _ask(self, request: Request, limit_s: float) -> Answer:
        """Send a request and wait for its answer.

        Raises:
            ToolError: it was refused. BrowserGone: see `Browser.act`. TimeoutError: no answer.
        """
        if self.gone:
            raise BrowserGone(f"The browser has ended: {self.gone}.")
        number = next(self._numbers)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            async with deadline(self._scope.clock, limit_s):
                await self._send_whole(msgspec.structs.replace(request, id=number))
                answer = await future
        except (asyncio.CancelledError, TimeoutError):
            self._cancel(number)
            raise
        finally:
            self._waiting.pop(number, None)
            if future.done() and not future.cancelled():
                future.exception()  # taken, though the end was noticed otherwise
        if answer.error:
            raise ToolError(answer.error)
        return answer

    def _cancel(self, number: int) -> None:
        if self._scope.admits and not self.gone:
            _ = self._begin_send(Request(number, "cancel"))

    async def _send_whole(self, message: Request) -> None:
        """Send it; a cancellation leaves no half of a line behind, which would end the host."""
        task = self._begin_send(message)
        await asyncio.wait({task})
        if self.gone:
            raise BrowserGone(f"The browser has ended: {self.gone}.")

    def _begin_send(self, message: Request) -> asyncio.Task[None]:
        async def sent() -> None:
            with contextlib.suppress(BrowserGone):  # it is told to who waits for an answer
                await self._send(message)

        return self._scope.spawn(sent(), name=f"{message.op} to the browser").value

    async def _send(self, message: Request | Launch) -> None:
        try:
            await self._process.write(msgspec.json.encode(message) + b"\n")
        except ProcessError:
            self._end("its host has ended")
            raise BrowserGone(f"The browser has ended: {self.gone}.") from None

    # --- for start_browser ------------------------------------------------------------------------

    async def begin(self, launch: Launch) -> None:
        """Launch, and wait until the browser runs.

        Raises:
            ToolError: it does not.
        """
        await self._send(launch)
        line = await self._line()
        try:
            ready = msgspec.json.decode(line, type=Ready)
        except msgspec.MsgspecError:
            raise ToolError("The browser's host does not start; see `tenure doctor`.") from None
        if ready.error:
            raise ToolError(ready.error)
        self.version, self.pid = ready.version, ready.pid

    async def listen(self) -> None:
        """Take answers until there are no more; then the browser has ended."""
        decoder = msgspec.json.Decoder(Answer)
        try:
            while line := await self._line():
                answer = decoder.decode(line)
                future = self._waiting.get(answer.id)
                if future is not None and not future.done():
                    future.set_result(answer)
        except msgspec.MsgspecError:
            log.warning("The browser's host speaks garbage; it is ended")
        self._end("it crashed, or somebody ended it")
        await self._process.stop()  # what of its tree may have survived it

    def _end(self, why: str) -> None:
        """It is gone: everyone who waits is told, at once."""
        if self.gone:
            return
        self.gone = why
        self._gone.set()
        if self.row is not None:
            self.row.pid = None
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(
                    BrowserGone(f"The browser has ended ({why}); the outcome is unknown.")
                )

    async def _line(self) -> bytes:
        """The next line; b"" at the end, or if it is too long."""
        reader = self._process.stdout
        assert reader is not None
        while (end := self._rest.find(b"\n")) < 0:
            piece = await reader.read()
            if not piece or len(self._rest) > LINE_BYTES_MAX:
                return b""
            self._rest += piece
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line


async def start_browser(
    scope: Scope, spawner: Spawner, executable: str, config: BrowserConfig, folder: Path
) -> HostedBrowser:
    """Start Chromium in a host of its own.

    Args:
        scope: owns all of it: the host's tree and the folder, in that order of ending.
        spawner: starts the host.
        executable: Chromium's.
        config: limits.
        folder: a new one, for everything that the browser writes; removed at the end.

    Raises:
        ToolError: it does not start; one sentence.
    """
    scope.own("browser folder", folder, lambda at: call_in_thread(remove_folder, at), grace_s=10.0)
    here = str(folder)
    process = await spawner.spawn(
        scope,
        python_argv(MODULE),
        cwd=folder,
        env=dict.fromkeys(_ITS_OWN, here),
        stdin="pipe",
        stderr="null",
        label="browser host",
        grace_s=GRACE_S,
    )
    browser = HostedBrowser(scope, process)
    launch = Launch(executable, here, os.geteuid() != 0, config.page_mib, config.total_mib)
    try:
        async with deadline(scope.clock, START_S):
            await browser.begin(launch)
    except TimeoutError:
        raise ToolError(f"The browser did not start within {START_S:.0f} s.") from None
    pid = browser.pid or None
    browser.row = scope.own("chromium", browser, _with_its_host, label=browser.version, pid=pid)
    scope.spawn(browser.listen(), name="answers of the browser")
    return browser


def _with_its_host(_: HostedBrowser) -> None:
    """It ends with its host; it is listed so that its process has an owner to be seen."""


def remove_folder(folder: Path) -> None:
    """Remove what a browser has left. Blocks."""
    shutil.rmtree(folder, ignore_errors=True)
