"""The program that holds the browser: ``python -m tenure.browser.host``.

A child of the gateway, so that what Playwright starts (its driver, Chromium and its processes) is a
tree below one process that the gateway owns, and a crash of any of it is not the gateway's. It is
spoken to over its stdin and stdout, which it takes away from everything else first. It ends with
its input, and when the browser has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
from playwright.async_api import Browser, Error, Playwright, async_playwright

from tenure.browser.memory import chromium, watch_memory
from tenure.browser.pages import Pages
from tenure.browser.protocol import (
    LINE_BYTES_MAX,
    Answer,
    Launch,
    Outcome,
    Ready,
    Request,
    Rules,
)
from tenure.browser.proxy import open_proxy
from tenure.clock import SystemClock
from tenure.errors import ProcessError, TenureError
from tenure.lifecycle.lease import Lease
from tenure.lifecycle.scope import Scope
from tenure.net.addresses import AddressRules
from tenure.net.dialing import Dialer
from tenure.processes.pipes import ByteReader, ByteWriter

log = logging.getLogger("tenure.browser")
CLOSE_CONTEXT_S = 3.0
CLOSE_S = 3.0
EXIT_ENDED = 3
NOTICE_S = 0.3
"""A page says that it was closed before the browser is seen to have ended."""
NOWHERE = "http://127.0.0.1:1"
"""The proxy of whatever is in no context: nobody listens there."""
FLAGS = (
    "--disable-quic",
    "--dns-prefetch-disable",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)


class Context:
    """A session's part of the browser: a scope with its proxy, its context and what runs in it."""

    def __init__(self, scope: Scope, pages: Pages) -> None:
        self.scope = scope
        self.pages = pages


class Host:
    """Serves requests. Everything below `scope`.

    Args:
        scope: the root.
        output: where answers go.
    """

    def __init__(self, scope: Scope, output: ByteWriter) -> None:
        self._scope = scope
        self._output = output
        self._contexts: dict[str, Context] = {}
        self._running: dict[int, Lease[asyncio.Task[None]]] = {}
        self._browser: Browser | None = None
        self._folder = Path()
        self.ended = asyncio.Event()
        """The browser has gone."""

    async def launch(self, wanted: Launch) -> Ready:
        """Start the browser; owned by the scope."""
        self._folder = Path(wanted.folder)
        try:
            driver: Lease[Playwright] = await self._scope.build(
                "driver", async_playwright().start, lambda held: held.stop(), grace_s=CLOSE_S
            )
            browser: Lease[Browser] = await self._scope.build(
                "chromium",
                lambda: _launch(driver.value, wanted),
                lambda held: held.close(),
                grace_s=CLOSE_S,
            )
        except Error as exc:
            return Ready(error=_launch_failed(exc, wanted))
        self._browser = browser.value
        self._browser.on("disconnected", lambda _: self.ended.set())
        main = chromium(os.getpid())
        watch = watch_memory(self._scope.clock, main, wanted.page_mib, wanted.total_mib)
        self._scope.spawn(watch, name="memory")
        return Ready(version=browser.value.version, pid=main.pid if main else 0)

    def take(self, request: Request) -> None:
        """Begin with a request; its answer is sent when it is there."""
        if request.op == "cancel":
            running = self._running.get(request.id)
            if running is not None:
                running.release_nowait()
            return
        lease = self._scope.spawn(self._serve(request), name=f"{request.op} {request.context}")
        self._running[request.id] = lease

    async def _serve(self, request: Request) -> None:
        try:
            answer = Answer(request.id, outcome=await self._do(request))
        except TenureError as exc:
            answer = Answer(request.id, error=exc.message)
        except asyncio.CancelledError:
            answer = Answer(request.id, error="It was given up.")
        except Exception as exc:
            log.exception("Request %s failed", request.op)
            answer = Answer(request.id, error=f"The browser failed inside: {type(exc).__name__}.")
        finally:
            self._running.pop(request.id, None)
        if "has been closed" in answer.error:
            await self._scope.clock.sleep(NOTICE_S)
        if not self._browser_lives():
            self.ended.set()  # nobody can tell what has become of it: the end of the host says so
            return
        await self.send(answer)

    def _browser_lives(self) -> bool:
        return self._browser is not None and self._browser.is_connected()

    async def _do(self, request: Request) -> Outcome:
        if request.op == "open":
            await self._open(request.context, request.rules or Rules())
            return Outcome()
        context = self._contexts.get(request.context)
        if context is None:
            raise ProcessError("The browser does not know these pages any more.")
        if request.op == "close":
            del self._contexts[request.context]
            await context.scope.close("closed")
            return Outcome()
        assert request.action is not None
        doing = context.scope.spawn(context.pages.act(request.action), name=request.action.verb)
        task = doing.value
        try:
            await asyncio.wait({task})
        finally:
            doing.release_nowait()
        if task.cancelled():
            raise ProcessError("The pages were closed meanwhile.")
        return task.result()

    async def _open(self, name: str, rules: Rules) -> None:
        """An isolated context behind a proxy of its own."""
        browser = self._browser
        assert browser is not None
        scope = self._scope.child(f"context {name}")
        scope.on_failure = lambda failure, error: None  # what fails is answered to who asked
        try:
            dialer = Dialer(AddressRules(rules.allow), scope.clock)
            proxy = await open_proxy(
                scope, dialer, upstream=rules.proxy, bytes_max=rules.file_bytes_max
            )
            there: Any = {"server": f"http://127.0.0.1:{proxy.port}", "bypass": "<-loopback>"}
            lease = await scope.build(
                "browser context",
                lambda: browser.new_context(
                    proxy=there, service_workers="block", accept_downloads=True
                ),
                lambda held: held.close(),
                grace_s=CLOSE_CONTEXT_S,
            )
            pages = Pages(lease.value, scope, proxy, rules, self._folder)
        except BaseException:
            await scope.close("not opened")
            raise
        self._contexts[name] = Context(scope, pages)

    async def send(self, message: Answer | Ready) -> None:
        """Write one line; nobody may be there to read it."""
        with contextlib.suppress(ProcessError):
            await self._output.write(msgspec.json.encode(message) + b"\n")


async def _launch(driver: Playwright, wanted: Launch) -> Browser:
    downloads = Path(wanted.folder) / "downloads"
    return await driver.chromium.launch(
        executable_path=wanted.executable,
        chromium_sandbox=wanted.confined,
        args=[*FLAGS, f"--js-flags=--max-old-space-size={wanted.page_mib}"],
        proxy={"server": NOWHERE, "bypass": "<-loopback>"},
        downloads_path=downloads,
        handle_sigint=False,
        handle_sigterm=False,
        handle_sighup=False,
    )


def _launch_failed(exc: Error, wanted: Launch) -> str:
    text = exc.message
    if "sandbox" in text.lower() and wanted.confined:
        return (
            "Chromium cannot make its sandbox here (no user namespaces); allow them "
            "(sysctl kernel.unprivileged_userns_clone=1), or run it in a container as root."
        )
    line = " ".join(text.partition("\n")[0].split())[:200].rstrip(".")
    return f"{wanted.executable} does not start: {line}."


async def serve(stdin: int, stdout: int) -> None:
    """Serve what comes from `stdin` until its end, or until the browser's."""
    reader, writer = ByteReader(stdin), ByteWriter(stdout)
    async with Scope.root("browser host", SystemClock()) as scope:
        host = Host(scope, writer)
        lines = _Lines(reader)
        first = await lines.next()
        if first is None:
            return
        ready = await host.launch(msgspec.json.decode(first, type=Launch))
        await host.send(ready)
        if ready.error:
            return
        reading = scope.spawn(_take_all(host, lines), name="requests").value
        ending = scope.spawn(_wait(host.ended), name="browser").value
        await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
        if host.ended.is_set():
            # Closing what is in a dead browser takes seconds, in which nobody would know of its
            # end. The gateway ends what is left of this tree.
            os._exit(EXIT_ENDED)


async def _take_all(host: Host, lines: _Lines) -> None:
    decoder = msgspec.json.Decoder(Request)
    while (line := await lines.next()) is not None:
        host.take(decoder.decode(line))


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


class _Lines:
    """The lines of a pipe."""

    def __init__(self, reader: ByteReader) -> None:
        self._reader = reader
        self._rest = bytearray()

    async def next(self) -> bytes | None:
        """The next line; None at the end, or if one is too long."""
        while (end := self._rest.find(b"\n")) < 0:
            piece = await self._reader.read()
            if not piece or len(self._rest) > LINE_BYTES_MAX:
                return None
            self._rest += piece
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line


def main() -> None:
    """Take stdin and stdout away from everybody else, then serve."""
    stdin, stdout = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the end of the input comes with it
    asyncio.run(serve(stdin, stdout))


if __name__ == "__main__":
    main()
