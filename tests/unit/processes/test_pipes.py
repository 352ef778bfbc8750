"""Our ends of a child's pipes: nothing is lost, nobody waits in vain, nothing stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import os

import pytest

from tenure.errors import ProcessError
from tenure.processes import pipes
from tenure.processes.pipes import ByteReader, ByteWriter
from tenure.testing.clock import settle


@pytest.fixture
def pipe():
    """A reading and a writing end; what a test has closed is closed."""
    ends = os.pipe()
    yield ends
    for fd in ends:
        with contextlib.suppress(OSError):
            os.close(fd)


async def begun(work):
    task = asyncio.ensure_future(work)
    await settle()
    return task


async def cancelled(task):
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


# --- reading --------------------------------------------------------------------------------------


async def test_an_empty_pipe_blocks_nobody(pipe):
    reader = ByteReader(pipe[0])
    assert not os.get_blocking(pipe[0])
    assert reader.read_nowait() is None


async def test_what_was_written_before_the_exit_is_read_first(pipe):
    reader = ByteReader(pipe[0])
    os.write(pipe[1], b"last words")
    reader.finish()
    assert await reader.read() == b"last words"


async def test_the_exit_ends_a_pipe_that_somebody_keeps_open(pipe):
    reader = ByteReader(pipe[0])
    waiting = await begun(reader.read())
    reader.finish()
    await settle()
    assert waiting.done() and waiting.result() == b""
    again = await begun(reader.read())
    assert again.done() and again.result() == b""


async def test_a_cancelled_read_leaves_all_to_the_next(pipe):
    reader = ByteReader(pipe[0])
    await cancelled(await begun(reader.read()))
    assert not asyncio.get_running_loop().remove_reader(pipe[0])
    waiting = await begun(reader.read())
    assert not waiting.done()
    os.write(pipe[1], b"x")
    assert await waiting == b"x"


async def test_of_two_readers_the_second_is_refused(pipe):
    reader = ByteReader(pipe[0])
    first, second = [await begun(reader.read()) for _ in range(2)]
    assert second.done() and isinstance(second.exception(), ProcessError)
    await cancelled(first)


async def test_the_end_of_a_terminal_is_an_end():
    ours, theirs = os.openpty()
    os.close(theirs)
    reader = ByteReader(ours)
    assert reader.read_nowait() == b""
    with pytest.raises(OSError):
        os.fstat(ours)


async def test_what_is_in_the_pipe_stays_readable_after_the_close(pipe):
    reader = ByteReader(pipe[0])
    os.write(pipe[1], b"kept")
    reader.close()
    reader.close()
    assert await reader.read(2) + await reader.read() == b"kept"
    assert await reader.read() == b""


async def test_who_goes_on_writing_does_not_hold_up_the_close(monkeypatch, pipe):
    monkeypatch.setattr(pipes, "REST_MAX", 10)
    reader = ByteReader(pipe[0])
    os.write(pipe[1], b"x" * 100)
    reads, plain = [], reader.read_nowait
    monkeypatch.setattr(ByteReader, "read_nowait", lambda _, n=8: reads.append(n) or plain(n))
    reader.close()
    assert len(reads) == 2


async def test_a_close_ends_who_reads_and_forgets_the_descriptor(pipe):
    reader = ByteReader(pipe[0])
    waiting = await begun(reader.read())
    reader.close()
    assert not asyncio.get_running_loop().remove_reader(pipe[0])
    await settle()
    assert waiting.done() and waiting.result() == b""


# --- writing --------------------------------------------------------------------------------------


async def test_a_full_pipe_blocks_nobody(pipe):
    writer = ByteWriter(pipe[1])
    assert not os.get_blocking(pipe[1])
    writer.close()


async def test_two_who_write_do_not_interleave(pipe):
    os.set_blocking(pipe[0], False)
    writer = ByteWriter(pipe[1])
    tasks = [await begun(writer.write(letter * 200_000)) for letter in (b"a", b"b")]
    read = bytearray()
    for _ in range(1_000):
        with contextlib.suppress(BlockingIOError):
            read += os.read(pipe[0], 1 << 16)
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    in_turn = read == b"a" * 200_000 + b"b" * 200_000
    assert in_turn, "to tell how they differ takes minutes"
    writer.close()


async def test_a_cancelled_write_is_forgotten_by_the_loop(pipe):
    writer = ByteWriter(pipe[1])
    await cancelled(await begun(writer.write(b"x" * 200_000)))
    assert not asyncio.get_running_loop().remove_writer(pipe[1])
    writer.close()


async def test_a_close_ends_who_writes_and_forgets_the_descriptor(pipe):
    writer = ByteWriter(pipe[1])
    waiting = await begun(writer.write(b"x" * 200_000))
    writer.close()
    writer.close()
    assert not asyncio.get_running_loop().remove_writer(pipe[1])
    await settle()
    assert waiting.done()
    with pytest.raises(ProcessError, match="is closed"):
        await waiting


async def test_who_has_closed_its_input_is_told_in_a_sentence_and_the_descriptor_is_freed(pipe):
    writer = ByteWriter(pipe[1])
    os.close(pipe[0])
    with pytest.raises(ProcessError, match="has closed its input"):
        await writer.write(b"x")
    with pytest.raises(OSError):
        os.fstat(pipe[1])
