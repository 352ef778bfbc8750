"""A client of the wire: calls, answers, events. Faces use this and nothing behind it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from tenure import errors
from tenure.clock import Clock
from tenure.errors import TenureError, TransportError
from tenure.lifecycle.scope import Scope
from tenure.protocol.messages import EventParams, Id, Request, Response, encode_error
from tenure.protocol.peer import Event, Peer
from tenure.transports.base import Transport, TransportClosed

_BY_KIND = {
    kind.__name__: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, TenureError)
}


class Client:
    """One connection to a gateway. Made by `Client.open`; ends with its scope.

    Ownership: the scope owns the transport and the reader; closing the scope closes both.
    """

    def __init__(self, transport: Transport, scope: Scope) -> None:
        self._transport = transport
        self._scope = scope
        self._peer = Peer()
        self._waiting: dict[Id, asyncio.Future[Any]] = {}
        self._events: deque[EventParams] = deque()
        self._parked: asyncio.Future[None] | None = None
        self._gone: TransportClosed | None = None

    @property
    def clock(self) -> Clock:
        """The clock of its scope."""
        return self._scope.clock

    @classmethod
    def open(cls, transport: Transport, scope: Scope) -> Client:
        """Take over `transport` and begin to read."""
        client = cls(transport, scope)
        scope.own("transport", transport, lambda t: t.aclose(), label=transport.peer)
        scope.spawn(client._read(), name="client reader")
        return client

    async def call(self, method: str, **params: Any) -> Any:
        """Call `method` and return its result as plain values. Cancellable: the answer is dropped.

        Raises:
            TenureError: the gateway's refusal, as its own class where known.
            TransportError: the connection is gone.
        """
        if self._gone is not None:
            raise TransportError("The connection to the gateway is gone.")
        an_id, frame = self._peer.call(method, params)
        answer = self._waiting[an_id] = asyncio.get_running_loop().create_future()
        try:
            await self._transport.send(frame)
            return await answer
        finally:
            self._waiting.pop(an_id, None)

    async def next_event(self) -> EventParams:
        """The next event, in order. Cancelling it loses none.

        Raises:
            TransportClosed: the connection is gone and everything received has been given out.
        """
        while not self._events:
            if self._gone is not None:
                raise self._gone
            self._parked = asyncio.get_running_loop().create_future()
            try:
                await self._parked
            finally:
                self._parked = None
        return self._events.popleft()

    def put_back(self, events: Sequence[EventParams]) -> None:
        """Give back events that were taken and are for somebody else; they come next, in order."""
        self._events.extendleft(reversed(events))
        self._wake()

    async def _read(self) -> None:
        try:
            while True:
                await self._take(await self._transport.receive())
        except TransportClosed as exc:
            self._end(exc)
        except BaseException:
            self._end(TransportClosed())
            raise

    async def _take(self, frame: str | bytes) -> None:
        message = self._peer.receive(frame)
        if isinstance(message, Event):
            self._events.append(message.params)
            self._wake()
        elif isinstance(message, Response):
            self._settle(message)
        elif isinstance(message, Request) and message.wants_answer:
            refusal = errors.MethodNotFound("This client answers no calls.")
            await self._transport.send(encode_error(message.id, refusal))

    def _settle(self, message: Response) -> None:
        answer = self._waiting.get(message.id)
        if answer is None or answer.done():
            return
        if message.error is None:
            answer.set_result(msgspec.json.decode(message.result))
        else:
            answer.set_exception(told(message.error))

    def _end(self, exc: TransportClosed) -> None:
        self._gone = exc
        self._wake()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(TransportError("The connection to the gateway is gone."))

    def _wake(self) -> None:
        if self._parked is not None and not self._parked.done():
            self._parked.set_result(None)


def told(error: dict[str, Any]) -> TenureError:
    """A refusal of the gateway as the error class that it names."""
    data = error.get("data") or {}
    kind = _BY_KIND.get(str(data.get("kind")), TenureError)
    message = str(error.get("message", "The gateway refused the call."))
    made = kind(message)
    if isinstance(made, errors.InternalError):
        made.error_id = str(data.get("error_id", ""))
    return made
