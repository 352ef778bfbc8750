"""The event reader, cut anywhere."""

import itertools

import pytest

from support.examples import given, strategies as st
from tenure.models.sse import EventTooLargeError, SseReader


def read_all(pieces, **options):
    reader = SseReader(**options)
    events = []
    for piece in pieces:
        events += reader.feed(piece)
    return events + reader.close()


STREAM = (
    '\ufeff: a comment\n\ndata: {"text": "grüße 🌍"}\n\n'
    "event: ping\ndata: one\ndata:two\nid: 7\nretry: 5\n\n\n\ndata\n\ndata: [DONE]\n\n"
).encode()
EVENTS = [
    (b"", '{"text": "grüße 🌍"}'.encode()),
    (b"ping", b"one\ntwo"),
    (b"", b""),
    (b"", b"[DONE]"),
]


@given(
    st.lists(st.integers(0, len(STREAM) * 2), max_size=12), st.sampled_from([b"\n", b"\r\n", b"\r"])
)
def test_any_cut_and_any_line_end_gives_the_same_events(cuts, line_end):
    stream = STREAM.replace(b"\n", line_end)
    edges = [0, *sorted(min(c, len(stream)) for c in cuts), len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(edges)]
    assert read_all(pieces) == EVENTS


def test_byte_by_byte():
    assert read_all([bytes([b]) for b in STREAM]) == EVENTS


def test_an_unfinished_event_is_still_read():
    assert read_all([b"data: [DO", b"NE]"]) == [(b"", b"[DONE]")]
    assert read_all([b"data: [DONE]\n"]) == [(b"", b"[DONE]")]


def test_the_old_error_field_is_an_event():
    assert read_all([b'error: {"code": 500}\n\n']) == [(b"error", b'{"code": 500}')]


def test_a_page_is_no_event():
    assert read_all([b"<html><body>\n\nhello</body></html>"]) == []


def test_an_endless_event_is_refused():
    with pytest.raises(EventTooLargeError):
        read_all([b"data: " + b"x" * 40] * 3, bytes_max=100)
    # many small events are fine
    assert len(read_all([b"data: xx\n\n" * 100], bytes_max=100)) == 100
