"""Chunks folded without any I/O."""

import pytest

from tenure.errors import ModelGarbage, ModelOverloaded
from tenure.models import chat_wire
from tenure.models.base import Progress, TextDelta
from tenure.models.chat_wire import ChunkReader
from tenure.models.failures import Origin
from tenure.testing.model_server import DONE, chunk, event

ORIGIN = Origin("lab")


def read(piece):
    reader = ChunkReader(ORIGIN)
    return reader.feed(piece) + reader.finish()


def test_what_came_before_a_failure_in_one_piece_is_told():
    reader = ChunkReader(ORIGIN)
    failure = event({"error": {"message": "died", "code": 500}})
    assert reader.feed(chunk(content="half") + failure) == [TextDelta("half")]
    assert reader.done
    with pytest.raises(ModelOverloaded, match="died"):
        reader.finish()


def test_progress_is_told_for_long_prompts_only():
    reader = ChunkReader(ORIGIN)

    def told(total, cache, processed):
        progress = {"total": total, "cache": cache, "processed": processed, "time_ms": 7}
        return reader.feed(event({"choices": [], "prompt_progress": progress}))

    assert told(300, 250, 300) == []
    assert told(300, 100, 200) == [Progress("reading the prompt 50 %")]
    assert reader.prompt.time_ms == 7


def test_too_many_calls_and_too_long_arguments_are_garbage(monkeypatch):
    monkeypatch.setattr(chat_wire, "CALLS_MAX", 2)
    monkeypatch.setattr(chat_wire, "ARGUMENTS_CHARS_MAX", 10)
    part = {"id": "x", "function": {"name": "f", "arguments": "{}"}}
    with pytest.raises(ModelGarbage, match="over 2 tool calls"):
        read(chunk(tool_calls=[{"index": n, **part} for n in range(3)]))
    long = {"index": 0, "function": {"name": "f", "arguments": "x" * 11}}
    with pytest.raises(ModelGarbage, match="too long"):
        read(chunk(tool_calls=[long]))


def test_nothing_counts_after_done():
    reader = ChunkReader(ORIGIN)
    reader.feed(chunk("stop", content="a") + DONE)
    assert reader.finish()[-1].reason == "stop"
