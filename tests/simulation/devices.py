"""A device: reads its session's events frame by frame, goes away, and comes back with its cursor.

What it checks needs the order in which answers and events arrive, so it speaks the wire itself.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec

from tenure.clock import Clock
from tenure.lifecycle.scope import Scope
from tenure.protocol.messages import Response
from tenure.protocol.peer import Event, Peer
from tenure.rpc.connection import Connection
from tenure.testing.gateway import TestGateway
from tenure.transports.base import Transport, TransportClosed
from tenure.transports.memory import memory_pair


class Device:
    """One person's device: some sessions, one request at a time.

    Attributes:
        cursors: the last event that it has applied, by session.
        broken: what it was told that it should not have been; empty if all is well.
        acked: turns by (session, key), as its receipts named them.
    """

    def __init__(self, gw: TestGateway, rnd: random.Random, name: str, log: list[str]) -> None:
        self.gw, self.rnd, self.name, self.log = gw, rnd, name, log
        self.cursors: dict[str, tuple[int, int]] = {}
        self.applied: dict[tuple[str, int], list[tuple[int, str]]] = {}
        self.broken: list[str] = []
        self.acked: dict[tuple[str, str], str] = {}
        self.owed: dict[tuple[str, str], str] = {}
        self.reordered: set[str] = set()
        self.busy: asyncio.Task[None] | None = None
        self._on: set[str] = set()
        self._asked: dict[str, Any] | None = None
        self._peer = Peer()
        self._ours: Transport | None = None
        self._scope: Scope | None = None
        self._answered: asyncio.Future[Any] | None = None

    # --- the connection -----------------------------------------------------------------------

    @property
    def online(self) -> bool:
        return self._ours is not None

    def connect(self) -> None:
        ours, theirs = memory_pair(self.name)
        connections = self.gw._connections
        connection = Connection(theirs, self.gw.ports, connections.child("connection"))
        connections.spawn(connection.run(), name="connection")
        self._speak(ours, self.gw.ports.clock)

    def _speak(self, ours: Transport, clock: Clock) -> None:
        self._ours, self._peer, self._on = ours, Peer(), set()
        self._scope = Scope.root(self.name, clock)
        self._scope.spawn(self._read(ours), name="device reader")

    async def dial(self) -> None:
        """Be online; a device on a real socket waits for it."""
        self.connect()

    async def vanish(self) -> None:
        """The network is gone, in the middle of whatever was being said."""
        if self._ours is not None and self._scope is not None:
            ours, scope = self._ours, self._scope
            self._ours = self._scope = None
            self._on = set()
            self._settle(None)
            ours.abort()
            await scope.close()

    async def _read(self, ours: Transport) -> None:
        try:
            while True:
                frame = await ours.receive()
                if ours is self._ours:
                    self._take(frame)
        except TransportClosed:
            if ours is self._ours:
                self._ours, self._on = None, set()
                self._settle(None)

    def _settle(self, result: Any) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(result)

    def _take(self, frame: str | bytes) -> None:
        message = self._peer.receive(frame)
        if isinstance(message, Event):
            self._event(message.params)
        elif isinstance(message, Response) and self._asked is not None:
            method, params = self._asked["method"], self._asked["params"]
            result = None if message.error else msgspec.json.decode(message.result)
            self.log.append(
                f"  {self.name} {'refused: ' + str(message.error) if message.error else 'done'}"
            )
            if message.error and message.error.get("data", {}).get("kind") == "InternalError":
                self._wrong(f"{method} {params}: {message.error}")
            if result is not None and method == "session.resume":
                self._attached(params, result)
            elif result is not None and method == "session.detach":
                self._on.discard(params["session_id"])
            self._settle(result)

    async def call(self, method: str, **params: Any) -> Any:
        """The result; None if it was refused or the connection went."""
        if self._ours is None:
            return None
        ours = self._ours
        _, frame = self._peer.call(method, params)
        self._asked = {"method": method, "params": params}
        self._answered = asyncio.get_running_loop().create_future()
        self.log.append(f"{self.name} {method} {params}")
        try:
            await ours.send(frame)
        except TransportClosed:
            return None
        return await self._answered

    # --- what it is told ----------------------------------------------------------------------

    def _wrong(self, what: str) -> None:
        self.broken.append(f"{self.name}: {what}")
        self.log.append(f"  WRONG {what}")

    def _attached(self, params: dict[str, Any], result: dict[str, Any]) -> None:
        sid, cursor, replay = result["session_id"], params.get("cursor"), result.get("replay")
        self._on.add(sid)
        if cursor and replay is None:
            self._wrong(f"{sid}: no word about cursor {cursor}")
        elif cursor and not replay["gap"]:
            if cursor["epoch"] != result["epoch"]:
                self._wrong(f"{sid}: cursor {cursor} continued in epoch {result['epoch']}")
            if cursor["seq"] + replay.get("events", 0) != result["seq"]:
                self._wrong(f"{sid}: cursor {cursor}, {replay}, answer at {result['seq']}")
        else:
            self.cursors[sid] = (result["epoch"], result.get("seq", 0))
            self.log.append(f"  {self.name} snapshot {sid} at {self.cursors[sid]}")

    def _event(self, event: Any) -> None:
        sid = event.session_id
        if not sid or not event.seq:
            return
        if sid not in self._on:
            self._wrong(f"{sid}: {event.type} {event.seq} while attached to {self._on}")
            return
        epoch, seq = self.cursors.get(sid, (0, 0))
        if (event.epoch, event.seq) != (epoch, seq + 1):
            self._wrong(f"{sid}: {event.epoch}/{event.seq} {event.type} after {epoch}/{seq}")
        self.cursors[sid] = (event.epoch, event.seq)
        self.applied.setdefault((sid, event.epoch), []).append((event.seq, event.type))
        if event.type == "session.closed":
            self._on.discard(sid)

    # --- what it does -------------------------------------------------------------------------

    async def attach(self, sid: str, **wishes: Any) -> Any:
        """Come (back) to a session with the cursor, if there is one."""
        if sid in self._on:
            return None
        if sid in self.cursors:
            epoch, seq = self.cursors[sid]
            wishes["cursor"] = {"epoch": epoch, "seq": seq}
        return await self.call("session.resume", session_id=sid, **wishes)

    async def live(self, known: list[str], profile_of: dict[str, str]) -> None:
        """One thing that a person does."""
        if not self.online:
            await self.dial()
        elif self.rnd.random() < 0.25:
            await self.vanish()
            await self.dial()
        if not known:
            return
        sid = self.rnd.choice(known)
        choice = self.rnd.random()
        if choice < 0.5:
            wishes: dict[str, Any] = {
                "role": self.rnd.choice(["owner", "owner", "viewer"]),
                "lazy": self.rnd.random() < 0.5,
                "eager_build": self.rnd.random() < 0.2,
                "omit_messages": self.rnd.random() < 0.3,
                "close_on_disconnect": self.rnd.random() < 0.2,
                "profile": profile_of[sid],
            }
            await self.attach(sid, **wishes)
        elif choice < 0.6:
            await self.call("session.detach", session_id=self.rnd.choice(sorted(self._on) or [sid]))
        elif choice < 0.9:
            await self.say(sid)

    async def say(self, sid: str) -> None:
        """Submit with a key: the one that was not acknowledged before anything new."""
        owed = next((key for owed_sid, key in self.owed if owed_sid == sid), None)
        again = owed or self.rnd.choice([k for s, k in self.acked if s == sid] or [None])
        key = (
            again if again and (owed or self.rnd.random() < 0.3) else f"{self.name}-{len(self.log)}"
        )
        text = f"keyed {key}"
        self.owed[sid, key] = text
        busy = self.rnd.choice([None, "queue", "steer", "interrupt"])
        self.reordered.add(sid)
        result = await self.call(
            "prompt.submit", session_id=sid, text=text, key=key, when_busy=busy
        )
        if result is not None:
            self.owed.pop((sid, key), None)
            before = self.acked.setdefault((sid, key), result["turn_id"])
            if before != result["turn_id"]:
                self._wrong(f"key {key} had {before}, now {result['turn_id']}")
