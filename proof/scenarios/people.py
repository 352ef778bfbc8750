"""A person at a client: speaks the wire, and believes nothing that is not true.

Frames go to and fro without a network between, so what is checked here is checked in the moment in
which the gateway says it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from proof.oracles import require
from tenure.protocol.messages import EventParams, Response
from tenure.protocol.peer import Event, Peer
from tenure.transports.base import TransportClosed

if TYPE_CHECKING:
    from proof.scenarios.house import House


class Wire:
    """The gateway's end of a connection; what it sends is heard at once."""

    def __init__(self, name: str, hear: Callable[[bytes], None]) -> None:
        self.peer = name
        self.closed = False
        self._hear = hear
        self._inbox: deque[bytes] = deque()
        self._readable: asyncio.Future[None] | None = None

    def say(self, frame: bytes) -> None:
        """From the person to the gateway."""
        self._inbox.append(frame)
        self._wake()

    async def receive(self) -> str | bytes:
        while not self._inbox:
            if self.closed:
                raise TransportClosed
            self._readable = asyncio.get_running_loop().create_future()
            await self._readable
        return self._inbox.popleft()

    async def send(self, frame: bytes) -> None:
        if self.closed:
            raise TransportClosed
        self._hear(frame)

    def send_nowait(self, frame: bytes, *, at_once: bool = False) -> bool:
        del at_once
        if not self.closed:
            self._hear(frame)
        return not self.closed

    def abort(self) -> None:
        self.closed = True
        self._inbox.clear()
        self._wake()

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        del code, reason
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        if self._readable is not None and not self._readable.done():
            self._readable.set_result(None)


class Person:
    """Somebody with one connection.

    Attributes:
        name: for the story.
        cursors: the last event of each session that they listen to, as (epoch, seq).
        refusals: kinds of refusals so far.
        closed: sessions that ended while they listened.
    """

    def __init__(self, house: House, name: str) -> None:
        self.house, self.name = house, name
        self.cursors: dict[str, tuple[int, int]] = {}
        self.refusals: list[str] = []
        self.closed: list[str] = []
        self.wire = Wire(name, self._hear)
        self._peer = Peer()
        self._waiting: dict[Any, tuple[str, dict[str, Any], asyncio.Future[Any]]] = {}
        self._awaited: list[tuple[str, asyncio.Future[EventParams]]] = []

    @property
    def online(self) -> bool:
        return not self.wire.closed

    def cut(self) -> None:
        """The network is gone."""
        self.house.tell(f"{self.name}'s line is cut")
        self.wire.abort()
        self.gone()

    def forget(self) -> None:
        """The gateway is dead: whatever was to come will not, and nobody there is to be woken."""
        self.wire.closed, self.wire._readable = True, None
        self.cursors.clear()
        self._waiting.clear()
        self._awaited.clear()

    def gone(self) -> None:
        """Nothing more is answered."""
        for _, _, answer in self._waiting.values():
            if not answer.done():
                answer.set_result(None)
        self._waiting.clear()

    async def call(self, method: str, **params: Any) -> Any:
        """The result; None if it is refused, or the line is cut."""
        if self.wire.closed:
            return None
        an_id, frame = self._peer.call(method, params)
        answer = self.house.loop.create_future()
        self._waiting[an_id] = (method, params, answer)
        self.house.tell(f"{self.name} asks {method} {self._said(params)}".rstrip())
        self.wire.say(frame)
        return await answer

    def told(self, kind: str) -> asyncio.Future[EventParams]:
        """The next event of that type."""
        future: asyncio.Future[EventParams] = self.house.loop.create_future()
        self._awaited.append((kind, future))
        return future

    def _said(self, params: dict[str, Any]) -> str:
        names = self.house.names
        return " ".join(names.get(str(value), str(value)) for value in params.values())

    # --- what is heard ----------------------------------------------------------------------------

    def _hear(self, frame: bytes) -> None:
        message = self._peer.receive(frame)
        if isinstance(message, Event):
            self._event(message.params)
        elif isinstance(message, Response) and message.id in self._waiting:
            method, params, answer = self._waiting.pop(message.id)
            result = None
            if message.error is not None:
                self._refused(method, message.error)
            else:
                result = msgspec.json.decode(message.result)
                self.house.tell(f"{self.name} is answered: {method}")
                self._answered(method, params, result)
            if not answer.done():
                answer.set_result(result)

    def _refused(self, method: str, error: dict[str, Any]) -> None:
        kind = str((error.get("data") or {}).get("kind"))
        self.refusals.append(kind)
        self.house.tell(f"{self.name} is refused: {method}: {kind}")
        require(kind != "InternalError", f"V27: {method}: {error.get('message')}")

    def _answered(self, method: str, params: dict[str, Any], result: Any) -> None:
        """V13: what is acknowledged is stored."""
        house = self.house
        if method in {"session.create", "session.branch"}:
            sid = result["session_id"]
            house.name_session(sid)
            house.promised(house.stored(sid) is not None, sid, "created, but it is not stored")
            self.cursors.setdefault(sid, (1, 0))
        elif method in {"session.resume", "session.attach", "session.activate"}:
            sid, cursor = result["session_id"], params.get("cursor")
            self.cursors[sid] = (result["epoch"], result["seq"])
            if cursor and not result["replay"]["gap"]:  # what was missed follows
                self.cursors[sid] = (cursor["epoch"], cursor["seq"])
        elif method == "session.detach":
            self.cursors.pop(params["session_id"], None)
        elif method in {"prompt.submit", "session.steer"}:
            sid, turn_id = params["session_id"], result["turn_id"]
            house.accept(sid, turn_id)
            house.promised(house.turn(turn_id) is not None, sid, "accepted, but it is not stored")
        elif method == "session.delete":
            row = house.stored(result["deleted"])
            require(row is None, "V13: deleted, but it is still stored")

    def _event(self, event: EventParams) -> None:
        """V13, V19: what is published is stored; numbers have no gaps."""
        sid = event.session_id
        if event.seq:
            house = self.house
            house.promised(house.has_event(event), sid, f"{event.type} is told before it is stored")
            name = house.names.get(sid, sid)
            require(sid in self.cursors, f"V8: {self.name} is told of {name} without listening")
            epoch, seq = self.cursors[sid]
            right = (event.epoch, event.seq) == (epoch, seq + 1)
            require(right, f"V19: {event.type} {event.epoch}/{event.seq} after {epoch}/{seq}")
            self.cursors[sid] = (event.epoch, event.seq)
            house.tell(f"{self.name} is told: {event.type} of {name}")
        for entry in list(self._awaited):
            kind, future = entry
            if kind == event.type:
                self._awaited.remove(entry)
                if not future.done():
                    future.set_result(event)
        if event.type == "session.closed":
            self.cursors.pop(sid, None)
            self.closed.append(sid)
