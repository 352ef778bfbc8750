"""Frames in, messages out; whatever comes, nothing but the two protocol errors is raised."""

from __future__ import annotations

import json

import pytest

from support.examples import given, strategies as st
from tenure.errors import InvalidRequest, ParseError, ProtocolError, SessionBusy
from tenure.protocol.messages import (
    EventParams,
    Request,
    Response,
    decode,
    encode_call,
    encode_error,
    encode_event,
    encode_result,
)
from tenure.protocol.peer import Event, Peer, Refusal

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
frames = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("jsonrpc", "id", "method", "params", "result", "error"), json_values),
)


@given(st.one_of(st.text(), st.binary(), frames.map(json.dumps), json_values.map(json.dumps)))
def test_any_frame_is_a_message_or_a_protocol_error(frame):
    try:
        message = decode(frame)
    except ProtocolError as exc:
        assert exc.message.endswith(".")
    else:
        assert isinstance(message, Request | Response)


@given(
    st.text() | st.integers(-(2**53), 2**53) | st.none(),
    st.text(),
    st.dictionaries(st.text(), json_values),
)
def test_a_call_comes_back_as_it_was(an_id, method, params):
    message = decode(encode_call(an_id, method, params))
    assert (message.id, message.method, json.loads(message.params)) == (an_id, method, params)


@pytest.mark.parametrize(("frame", "error", "code"), [
    ("{", ParseError, -32700), ("", ParseError, -32700), ("nonsense", ParseError, -32700),
    ("[]", InvalidRequest, -32600), ('[{"id":1,"method":"x"}]', InvalidRequest, -32600),
    ("1", InvalidRequest, -32600), ("{}", InvalidRequest, -32600),
    ('{"id":1}', InvalidRequest, -32600), ('{"id":1,"method":5}', InvalidRequest, -32600),
    ('{"id":true,"method":"x"}', InvalidRequest, -32600), ('{"id":[1],"method":"x"}', InvalidRequest, -32600),
    ('{"jsonrpc":"1.0","id":1,"method":"x"}', InvalidRequest, -32600),
    ('{"id":1,"error":"text"}', InvalidRequest, -32600),
])  # fmt: skip
def test_what_is_refused(frame, error, code):
    with pytest.raises(error) as caught:
        decode(frame)
    assert caught.value.code == code


def test_a_refusal_goes_back_under_the_id_that_could_be_read():
    refusal = Peer().receive('{"jsonrpc":"2.0","id":"r7","method":5}')
    assert isinstance(refusal, Refusal)
    assert json.loads(refusal.frame)["id"] == "r7"


def test_without_an_id_no_answer_is_wanted_and_null_is_an_id():
    assert decode('{"method":"x"}').wants_answer is False
    assert decode('{"method":"x","id":null}').wants_answer is True
    assert decode('{"method":"x","id":1,"params":null}').params == b"{}"


def test_answers_to_nothing_are_ignored_and_each_counts_once():
    peer = Peer()
    an_id, _ = peer.call("x", {})
    assert peer.receive('{"id":"stranger","result":1}') is None
    assert peer.receive(encode_result(an_id, {"a": 1})).result == b'{"a":1}'
    assert peer.receive(encode_result(an_id, {"a": 1})) is None
    assert peer.waiting == 0


def test_events_and_errors_carry_what_they_say():
    event = Peer().receive(encode_event(EventParams("message.start", "s", {"a": 1}, 2, 3)))
    assert isinstance(event, Event)
    assert (event.params.type, event.params.epoch, event.params.seq) == ("message.start", 2, 3)
    assert b"epoch" not in encode_event(EventParams("message.delta", "s", {"text": "x"}))
    error = json.loads(encode_error(1, SessionBusy("Busy.")))["error"]
    assert error["message"] == "Busy." and error["data"]["kind"] == "SessionBusy"
