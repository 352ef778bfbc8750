"""Whole messages through memory and through pipes: order, slow readers, ends."""

from __future__ import annotations

import asyncio
import os

import pytest

from tenure.transports.admission import is_near
from tenure.transports.base import TransportClosed
from tenure.transports.memory import QUEUE_MAX, memory_pair
from tenure.transports.stdio import StdioTransport


async def test_what_was_sent_before_the_end_is_received_then_it_is_over():
    ours, theirs = memory_pair("test")
    await ours.send(b"one")
    await ours.send(b"two")
    await ours.aclose()
    assert [await theirs.receive(), await theirs.receive()] == [b"one", b"two"]
    for refused in (theirs.receive(), theirs.send(b"x"), ours.receive(), ours.send(b"x")):
        with pytest.raises(TransportClosed):
            await refused


async def test_a_sender_waits_for_a_slow_reader_and_loses_nothing(root):
    ours, theirs = memory_pair()

    async def send_all() -> None:
        for n in range(QUEUE_MAX + 10):
            await ours.send(b"%d" % n)

    sending = root.spawn(send_all(), name="send").value
    for _ in range(5):
        await asyncio.sleep(0)
    assert not sending.done()
    assert [int(await theirs.receive()) for _ in range(QUEUE_MAX + 10)] == list(
        range(QUEUE_MAX + 10)
    )
    await sending


@pytest.fixture
async def stdio():
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    writer, reader = os.fdopen(in_write, "wb", buffering=0), os.fdopen(out_read, "rb", buffering=0)
    with writer, reader:
        transport = await StdioTransport.open(in_read, out_write)
        yield transport, writer, reader
        await transport.aclose()
        await asyncio.sleep(0)


async def test_lines_in_lines_out_and_the_end_of_input_is_not_the_end_of_output(stdio):
    transport, writer, reader = stdio
    writer.write(b'{"a":1}\n\n  \n{"b"')
    assert (await transport.receive()).strip() == b'{"a":1}'
    writer.write(b":2}")
    writer.close()
    assert (await transport.receive()).strip() == b'{"b":2}'
    with pytest.raises(TransportClosed) as ended:
        await transport.receive()
    assert ended.value.listening
    await transport.send(b'{"answer":1}')
    assert reader.read(100) == b'{"answer":1}\n'


async def test_a_reader_that_is_gone_ends_sending(stdio):
    transport, _, reader = stdio
    reader.close()
    with pytest.raises(TransportClosed):
        for _ in range(100):
            await transport.send(b"x" * 4096)
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("peer", "near"),
    [
        ("in-process", True), ("stdio", True), ("127.0.0.1:4711", True), ("::1:4711", True),
        ("127.0.0.1", False), ("192.168.1.2:4711", False), ("2001:db8::1:4711", False),
        ("unknown:0", False), ("", False), ("localhost.example:1", False),
    ],
)  # fmt: skip
def test_which_peers_are_on_this_machine(peer, near):
    assert is_near(peer) is near
