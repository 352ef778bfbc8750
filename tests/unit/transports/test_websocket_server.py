"""What the socket adds to the library's: frames of one turn of the loop go out together."""

from __future__ import annotations

import asyncio

import pytest
from uvicorn import Config
from uvicorn.server import ServerState
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import State

from tenure.transports.websocket_server import HELD_BYTES, SocketProtocol


class Pipe(asyncio.Transport):
    """Keeps each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))


async def _app(_scope: object, _receive: object, _send: object) -> None:
    """Never called."""


@pytest.fixture
async def socket():
    config = Config(_app, ws=SocketProtocol, lifespan="off")
    protocol = SocketProtocol(config, ServerState(), {}, asyncio.get_running_loop())
    protocol.transport = Pipe()
    protocol.handshake_complete = True
    protocol.conn.state = State.OPEN
    return protocol


def _frame(text: bytes) -> bytes:
    return Frame(Opcode.TEXT, text).serialize(mask=False)


async def test_the_first_frame_goes_at_once_and_the_others_of_the_turn_together(socket):
    for text in (b"one", b"two", b"three"):
        assert socket.send_nowait(text)
    assert socket.transport.writes == [_frame(b"one")]
    await asyncio.sleep(0)
    assert socket.transport.writes[1:] == [_frame(b"two") + _frame(b"three")]
    assert socket.send_nowait(b"four")
    assert socket.transport.writes[2:] == [_frame(b"four")], "a new turn"
    await asyncio.sleep(0)
    assert len(socket.transport.writes) == 3, "nothing waits"


async def test_what_must_not_be_held_takes_along_what_waits(socket):
    for text in (b"one", b"two"):
        assert socket.send_nowait(text)
    assert socket.send_nowait(b"seen", at_once=True)
    assert socket.transport.writes[1:] == [_frame(b"two") + _frame(b"seen")]
    assert socket.send_nowait(b"later")
    assert len(socket.transport.writes) == 2, "that was no new turn"
    await asyncio.sleep(0)
    assert socket.transport.writes[2:] == [_frame(b"later")]


async def test_much_does_not_wait_for_the_end_of_the_turn(socket):
    big = b"x" * (HELD_BYTES + 1)
    assert socket.send_nowait(b"first")
    assert socket.send_nowait(big)
    assert socket.transport.writes[1:] == [_frame(big)]


async def test_what_else_is_written_comes_after_what_waits(socket):
    for text in (b"one", b"two", b"and"):
        assert socket.send_nowait(text)
    await socket.send({"type": "websocket.close", "code": 1000, "reason": ""})
    end = Frame(Opcode.CLOSE, Close(1000, "").serialize()).serialize(mask=False)
    assert (
        b"".join(socket.transport.writes) == b"".join(map(_frame, (b"one", b"two", b"and"))) + end
    )
    await asyncio.sleep(0)
    assert b"".join(socket.transport.writes).endswith(end), "and nothing after the end"
    assert not socket.send_nowait(b"three")
    socket.close_timer.cancel()


async def test_a_socket_that_has_gone_is_written_nothing(socket):
    for text in (b"one", b"two", b"and"):
        assert socket.send_nowait(text)
    socket.disconnected = True
    await asyncio.sleep(0)
    assert socket.transport.writes == [_frame(b"one")]


async def test_a_peer_that_has_said_goodbye_is_sent_nothing_and_nobody_fails(socket):
    """Its close frame was read, the application has not heard of it yet."""
    socket.conn.state = State.CLOSING
    assert not socket.send_nowait(b"an event that others hear, too")
