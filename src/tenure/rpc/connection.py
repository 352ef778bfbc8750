"""One connection, from accept to gone: reads frames, runs requests, writes what waits.

It owns its requests and attachments through its scope. Its end detaches only what it attached
itself, and closes only sessions that it opened to be closed with it and still holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from tenure import __version__
from tenure.errors import Overloaded, ScopeClosed
from tenure.lifecycle.deadline import deadline
from tenure.lifecycle.lease import Lease
from tenure.lifecycle.scope import Scope
from tenure.protocol.messages import EventParams, Request, encode_error
from tenure.protocol.peer import Peer as WirePeer, Refusal
from tenure.rpc.dispatch import dispatch
from tenure.rpc.outbox import Outbox
from tenure.rpc.ports import Call, GatewayPorts
from tenure.sessions.attachments import ATTACHMENT
from tenure.transports.admission import is_near
from tenure.transports.base import Transport, TransportClosed

log = logging.getLogger("tenure.rpc")

REQUESTS_MAX = 256
"""Requests of one connection that may run at once; more are refused with a retryable error."""
TOLD_LAZY_MAX = 64
"""A client polls for the session that it shows, so older ones may be forgotten."""
SLOW_CONSUMER = 1013
TELL_S = 5.0
"""How long a peer that is too slow has to take what waits, and the reason."""
LAST_ANSWERS_S = 5.0
"""How long requests may run on for a peer that has ended its input (`… | serve --stdio`)."""
LOGO = """\
╺┳╸┏━╸┏┓╻╻ ╻┏━┓┏━╸
 ┃ ┣╸ ┃┗┫┃ ┃┣┳┛┣╸
 ╹ ┗━╸╹ ╹┗━┛╹┗╸┗━╸"""
_WIDE = "\u2800" * 14
"""Blanks that are no white space: the client gives the session's facts as much room as this art."""
HERO = f"""\
gateway{_WIDE}{_WIDE}
├── store
├── sessions
│   ├── turn
│   └── process
└── connections"""
READY_SKIN = {
    "name": "tenure",
    "colors": {},
    "branding": {"agent_name": "Tenure", "welcome": "Tenure", "prompt_symbol": "›"},
    "banner_logo": LOGO,
    "banner_hero": HERO,
    "tool_prefix": "",
    "help_header": "Commands",
}


class Connection:
    """A peer at the other end of a transport.

    Args:
        transport: the wire; closed at the end.
        gateway: what handlers are given.
        scope: of this connection; `run` closes it.
    """

    def __init__(self, transport: Transport, gateway: GatewayPorts, scope: Scope) -> None:
        self._transport = transport
        self._gateway = gateway
        self._scope = scope
        self._wire = WirePeer()
        self._outbox = Outbox(gateway.clock, transport.send_nowait)
        self._requests = 0
        self._dropping = False
        self._settled = asyncio.Event()
        """Something was answered or sent."""
        self._pastes: dict[str, str] = {}
        self.watching: Lease[asyncio.Task[None]] | None = None
        self._told_lazy: deque[str] = deque(maxlen=TOLD_LAZY_MAX)

    # --- as handlers see it -------------------------------------------------------------------

    @property
    def scope(self) -> Scope:
        """What the connection holds."""
        return self._scope

    @property
    def near(self) -> bool:
        """Whether the peer is on this machine: a pipe, memory, or a loopback address."""
        return is_near(self._transport.peer)

    @property
    def pastes(self) -> dict[str, str]:
        """Long pastes by placeholder."""
        return self._pastes

    @property
    def told_lazy(self) -> deque[str]:
        """The last sessions that an answer to this peer described before their agent was built."""
        return self._told_lazy

    def publish(self, event: EventParams) -> None:
        """Queue an event for this peer. Never waits."""
        self._outbox.put_event(event)
        if self._outbox.overflowed:
            self._drop()

    async def has_room(self) -> None:
        """Wait while much waits for this peer."""
        await self._outbox.low()

    def overflow(self) -> None:
        """Tell this peer that it is too slow, and drop it, alone."""
        self._outbox.overflow()
        self._drop()

    def _drop(self) -> None:
        """A peer that takes nothing cannot even be told, so it is cut off a little later."""
        if not self._dropping and self._scope.admits:
            self._dropping = True
            self._scope.spawn(self._cut_off(), name="drop")

    async def _cut_off(self) -> None:
        await self._gateway.clock.sleep(TELL_S)
        self._transport.abort()

    # --- its life -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until the transport ends, or the scope is closed from above (cancellation)."""
        ready = {
            "skin": READY_SKIN,
            "server": "tenure",
            "version": __version__,
            "instance": self._gateway.instance,
        }
        self._outbox.put_event(EventParams("gateway.ready", payload=ready))
        code = 1000
        try:
            self._scope.spawn(self._write(), name="writer")
            while True:
                await self._outbox.room()
                self._receive(await self._transport.receive())
        except TransportClosed as exc:
            code = exc.close_code
            if exc.listening:
                await self._answer_the_rest()
        except ScopeClosed:
            code = 1001
        finally:
            await self._end(code)

    def _receive(self, frame: str | bytes) -> None:
        message = self._wire.receive(frame)
        if isinstance(message, Refusal):
            self._outbox.put_answer(message.frame)
        elif isinstance(message, Request):
            self._begin(message)

    def _begin(self, request: Request) -> None:
        if self._requests >= REQUESTS_MAX:
            refusal = Overloaded(f"{REQUESTS_MAX} requests of this connection run already.")
            if request.wants_answer:
                self._outbox.put_answer(encode_error(request.id, refusal))
            return
        self._requests += 1
        self._scope.spawn(self._serve(request), name=request.method[:40])

    async def _serve(self, request: Request) -> None:
        call = Call(self._gateway, self)
        try:
            frame = await dispatch(request, call)
            if frame is not None:
                self._outbox.put_answer(frame)
        finally:
            for step in call.later:
                step()
            self._requests -= 1
            self._settled.set()

    async def _write(self) -> None:
        try:
            while frame := await self._outbox.get():
                await self._transport.send(frame)
                self._outbox.sending = False
                self._settled.set()
            log.warning("Connection %s is too slow; it is dropped", self._transport.peer)
            await self._transport.aclose(SLOW_CONSUMER, "too slow: reconnect and resume")
        except TransportClosed:
            return
        finally:
            self._outbox.give_up()

    async def _answer_the_rest(self) -> None:
        """The peer says no more, but may wait for its answers: requests run on, bounded."""
        try:
            async with deadline(self._gateway.clock, LAST_ANSWERS_S):
                while self._requests or self._outbox.sending or len(self._outbox):
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError:
            return

    async def _end(self, code: int) -> None:
        """Detach, then close what was opened to end with this connection.

        No snapshot is acted upon: each session is asked at the moment of acting whether it is
        still this connection's to close.
        """
        self._scope.claim(f"disconnected ({code})")
        sessions = self._gateway.sessions
        for entry in self._scope.census():
            session = sessions.find(entry.label) if entry.kind == ATTACHMENT else None
            bound = session.attachments.of(self) if session else None
            if session and bound and session.attachments.left_by(bound.value):
                sessions.close_nowait(session, "the client left", "client")
        await self._scope.close()
        await self._transport.aclose()
