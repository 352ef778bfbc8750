"""A gateway of one's own inside `run` and `chat`: the only place in the faces that builds one.

It listens too, on a free loopback port, so that a second `run` or `chat` on the same home attaches
to it instead of fighting for the database. At its end it waits for turns that others have running.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tenure.app import Gateway, Start, open_gateway
from tenure.config import Home, Loaded
from tenure.lifecycle.imports import import_off_loop
from tenure.lifecycle.uninterrupted import uninterrupted
from tenure.shutdown import budget
from tenure.transports.memory import MemoryTransport, memory_pair

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tenure.processes.guard import Guarded
    from tenure.sessions.actor import Session


class Embedded:
    """A gateway in this process. Made by `open_embedded`; the caller must `aclose` it."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.own_sessions: set[str] = set()
        """Sessions that need not be waited for at the end."""
        self._served: asyncio.Task[None] | None = None
        self.stopped = False
        """The gateway was asked to stop; nobody's turn is waited for any more."""

    async def connect(self) -> MemoryTransport:
        """A connection to it, in memory; its far end is owned by the gateway."""
        ports = await self._gateway.ports()
        from tenure.rpc.connection import Connection

        assert self._gateway.connections is not None
        ours, theirs = memory_pair()
        scope = self._gateway.connections.child("connection:in-process")
        served = self._gateway.connections.spawn(
            Connection(theirs, ports, scope).run(), name="in-process"
        )
        self._served = served.value
        self._gateway.connections.spawn(self._obey(served.value), name="stop")
        return ours

    async def _obey(self, served: asyncio.Task[None]) -> None:
        """Hang up when the gateway is asked to stop (its guard is gone); the command then ends."""
        await self._gateway.stop_asked.wait()
        self.stopped = True
        served.cancel()

    async def listen_once(self) -> None:
        """`listen`, unless it does already."""
        if not self._gateway.url:
            await self.listen()

    async def listen(self) -> None:
        """Let others on this machine attach."""
        bind = (await import_off_loop("tenure.server")).bind
        await self._gateway.listen(bind("127.0.0.1", 0))
        self._gateway.announce()

    def others_listen(self, session_id: str) -> bool:
        """Whether anybody else is attached to a session of ours, while we are."""
        return any(s.id == session_id and len(s.attachments) > 1 for s in self._live())

    def working_for_others(self) -> list[asyncio.Event]:
        """The ends of turns that run in other clients' sessions, or that others listen to.

        We have detached ourselves: whoever is attached now is somebody else.
        """
        return [
            session.current.over
            for session in self._live()
            if session.current is not None
            and (session.id not in self.own_sessions or len(session.attachments))
        ]

    def _live(self) -> list[Session]:
        opening = self._gateway._opening  # noqa: SLF001 - the embedded face of the same thing
        if opening is None or not opening.done() or opening.exception():
            return []
        live: list[Session] = opening.result().sessions.live()
        return live

    async def aclose(self) -> None:
        """Wait for others' turns, then end everything.

        Cancellation: others are waited for no longer; the ending goes on, and is waited for.
        """
        try:
            if self._served is not None:
                await asyncio.wait({self._served})  # our own end of the connection is closed
            if self.working_for_others():
                sys.stderr.write(
                    "Other clients have turns running here; waiting for their end "
                    "(Ctrl-C ends them now).\n"
                )
            while not self.stopped and (others := self.working_for_others()):
                await others[0].wait()
        finally:
            clock, limits = self._gateway.start.clock, budget(self._gateway.config().server)
            await uninterrupted(clock, limits.kill_s, self._end())

    async def _end(self) -> None:
        if not await self._gateway.aclose("the command ended"):
            sys.stderr.write("Something did not end in time; all that was said is stored.\n")
            sys.stdout.flush()
            os._exit(1)  # it would keep the command from ending, too; the guard ends the rest


def open_embedded(
    home: Home,
    loaded: Loaded,
    environ: Mapping[str, str],
    cwd: Path,
    model: str,
    guarded: Guarded | None,
) -> Embedded:
    """Take the home and prepare a gateway.

    Raises:
        Conflict: another process holds the home.
    """
    start = Start(home=home, loaded=loaded, environ=environ, cwd=cwd, model=model, guarded=guarded)
    return Embedded(open_gateway(start))


__all__ = ["Embedded", "open_embedded"]
