"""The sans-I/O side of one connection: frames in, decisions out; no clock, no waiting.

Both ends use it: the gateway hands it what arrives and gets calls to run or refusals to send; a
client also gets answers and events.
"""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from tenure.errors import ProtocolError
from tenure.protocol.messages import (
    EventParams,
    Id,
    Request,
    Response,
    decode,
    encode_call,
    encode_error,
)

_event = msgspec.json.Decoder(EventParams)


class Refusal(msgspec.Struct, frozen=True):
    """The frame was wrong: send this and go on."""

    frame: bytes


class Event(msgspec.Struct, frozen=True):
    """An event that the other side published."""

    params: EventParams


class Peer:
    """What one side of a connection knows: which calls of its own wait for an answer."""

    __slots__ = ("_next", "_waiting")

    def __init__(self) -> None:
        self._next = itertools.count(1)
        self._waiting: set[Id] = set()

    @property
    def waiting(self) -> int:
        """Calls of ours without an answer."""
        return len(self._waiting)

    def call(self, method: str, params: Any) -> tuple[Id, bytes]:
        """A call to send: its id and its frame."""
        an_id = f"c{next(self._next)}"
        self._waiting.add(an_id)
        return an_id, encode_call(an_id, method, params)

    def receive(self, frame: bytes | str) -> Request | Response | Event | Refusal | None:
        """What a frame means. None: an answer to nothing, ignored. Never raises."""
        try:
            message = decode(frame)
            if isinstance(message, Request) and message.method == "event":
                return Event(_event.decode(message.params))
        except msgspec.DecodeError:
            return None
        except ProtocolError as exc:
            return Refusal(encode_error(getattr(exc, "id", None), exc))
        if isinstance(message, Response):
            if message.id not in self._waiting:
                return None
            self._waiting.discard(message.id)
        return message
