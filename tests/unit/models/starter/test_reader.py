"""Calls in what the starter writes, cut anywhere."""

import itertools

import pytest

from support.examples import given, strategies as st
from tenure.conversation import ToolCall, ToolSpec
from tenure.models.base import TextDelta, ToolCallReady, ToolCallStarted
from tenure.models.starter.reader import CallReader

TOOLS = (ToolSpec("shell", "", {}), ToolSpec("write", "", {}))
CALL = '```json\n{"name":"shell","arguments":{"command":"echo \\"```\\\\n\\""}}\n```'
ARGUMENTS = '{"command":"echo \\"```\\\\n\\""}'


def read(pieces, tools=TOOLS):
    reader = CallReader(tools, "id")
    events = []
    for piece in pieces:
        events += reader.feed(piece)
    events += reader.finish()
    return reader, events


def text_of(events):
    return "".join(e.text for e in events if isinstance(e, TextDelta))


def calls_of(events):
    return [e.call for e in events if isinstance(e, ToolCallReady)]


CASES = [
    ("Hello there, `x` and ```py\nprint()\n``` too.", None),
    (CALL, ""),
    (f"I do it.\n{CALL}", "I do it.\n"),
    (f"I do it.\n{CALL}\nResult:\nmade up", "I do it.\n"),
    (CALL.removesuffix("\n```"), ""),  # the fence was not closed
    ('```json\n{"name":"unknown","arguments":{}}\n``` is a call', None),
    ('Like ```json\n{"a": 1}\n``` and so on', None),
    ('```json\n{"name":"shell","arguments":3}\n```', None),
    ('```json\n{"name":"shell","arguments":{},"more":1}\n```', None),
    ('```json\n{"name":"shell","arguments":{"command":"cut', None),
    ("ends with ``", None),
    ("", None),
]


@pytest.mark.parametrize(("written", "prose"), CASES)
@given(cuts=st.lists(st.integers(0, 120), max_size=8))
def test_any_cut_gives_the_same(written, prose, cuts):
    edges = [0, *sorted(min(c, len(written)) for c in cuts), len(written)]
    pieces = [written[a:b] for a, b in itertools.pairwise(edges)]
    reader, events = read(pieces)
    if prose is None:
        assert text_of(events) == written
        assert not calls_of(events)
    else:
        assert text_of(events) == prose
        assert calls_of(events) == [ToolCall("id", "shell", ARGUMENTS)]
        assert reader.called
        started = [e for e in events if isinstance(e, ToolCallStarted)]
        assert started == [ToolCallStarted(0, "shell")]
    assert reader.spoke == bool(text_of(events))


def test_prose_is_told_at_once():
    reader = CallReader(TOOLS, "id")
    assert text_of(reader.feed("Hello")) == "Hello"
    assert text_of(reader.feed(" a`")) == " a"  # a fence might begin here
    assert text_of(reader.feed("b")) == "`b"


def test_the_name_is_told_before_the_arguments_are_whole():
    reader = CallReader(TOOLS, "id")
    events = reader.feed('```json\n{"name":"write","arguments":{"path":"a","content":"long')
    assert events == [ToolCallStarted(0, "write")]


@pytest.mark.parametrize(
    "inside", ['"name":"shell","name":"shell"', '"arguments":{},"name":"shell"']
)
def test_a_call_that_is_whole_at_once_has_a_start_too(inside):
    _, events = read([f'```json\n{{{inside},"arguments":{{}}}}\n```'])
    assert events[0] == ToolCallStarted(0, "shell") and len(calls_of(events)) == 1


def test_without_tools_everything_is_text():
    _, events = read([CALL], tools=())
    assert text_of(events) == CALL
