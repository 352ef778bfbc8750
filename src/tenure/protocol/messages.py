"""JSON-RPC 2.0 messages as they stand on the wire, and their encoding. No I/O.

Requests and events use one frame shape each; ids are kept exactly as the peer wrote them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tenure.errors import InvalidRequest, ParseError, TenureError

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""A larger frame closes its connection with 1009."""
PROMPT_BYTES_MAX = 4 * 1024 * 1024
"""A longer prompt is refused in a sentence."""

Id = str | int | float | None


class Frame(msgspec.Struct):
    """Anything that a peer may send. Members that are absent are UNSET."""

    jsonrpc: Any = msgspec.UNSET
    id: Any = msgspec.UNSET
    method: Any = msgspec.UNSET
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: Any = msgspec.UNSET


class Request(msgspec.Struct, frozen=True):
    """A call. `wants_answer` is False for a request without an id: it gets none."""

    id: Id
    method: str
    params: bytes
    wants_answer: bool = True


class Response(msgspec.Struct, frozen=True):
    """An answer to a call of ours."""

    id: Id
    result: bytes = b"null"
    error: dict[str, Any] | None = None


class _Result(msgspec.Struct):
    id: Id
    result: Any
    jsonrpc: str = "2.0"


class _Error(msgspec.Struct):
    id: Id
    error: dict[str, Any]
    jsonrpc: str = "2.0"


class _Call(msgspec.Struct, omit_defaults=False):
    id: Id
    method: str
    params: Any
    jsonrpc: str = "2.0"


class EventParams(msgspec.Struct, omit_defaults=True, dict=True):
    """What an event carries. Changed by nobody once it is published.

    `epoch` and `seq` stand on durable events only; `transient` marks those of a session that are
    not stored, which no cursor brings back.
    """

    type: str
    session_id: str = ""
    payload: Any = None
    epoch: int = 0
    seq: int = 0
    transient: bool = False


class _Event(msgspec.Struct):
    params: EventParams
    method: str = "event"
    jsonrpc: str = "2.0"


_encoder = msgspec.json.Encoder()
_frames = msgspec.json.Decoder(Frame)


def decode(frame: bytes | str) -> Request | Response:
    """One frame as a message.

    Raises:
        ParseError: not JSON.
        InvalidRequest: JSON, but neither a call nor an answer; batches are not taken. The error's
            ``id`` attribute holds the id if one could be read.
    """
    try:
        found = _frames.decode(frame)
    except msgspec.ValidationError:
        raise _invalid("A frame is one JSON object (batches are not taken).") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise ParseError(f"The frame is not JSON: {exc}.") from None
    if found.method is msgspec.UNSET and found.id is not msgspec.UNSET and _answers(found):
        return _response(found)
    return _request(found)


def _answers(found: Frame) -> bool:
    return found.result is not msgspec.UNSET or found.error is not msgspec.UNSET


def _response(found: Frame) -> Response:
    error = None if found.error is msgspec.UNSET else found.error
    if error is not None and not isinstance(error, dict):
        raise _invalid("An answer's error is an object with code and message.")
    raw = found.result
    return Response(found.id, bytes(raw) if isinstance(raw, msgspec.Raw) else b"null", error)


def _request(found: Frame) -> Request:
    has_id = found.id is not msgspec.UNSET
    an_id = found.id if has_id else None
    if an_id is not None and (isinstance(an_id, bool) or not isinstance(an_id, str | int | float)):
        raise _invalid("A request's id is a string, a number or null.")
    if found.jsonrpc is not msgspec.UNSET and found.jsonrpc != "2.0":
        raise _invalid('A request says "jsonrpc": "2.0".', an_id)
    if not isinstance(found.method, str):
        raise _invalid("A request names its method in a string.", an_id)
    params = bytes(found.params) if isinstance(found.params, msgspec.Raw) else b"{}"
    if params == b"null":
        params = b"{}"
    return Request(an_id, found.method, params, wants_answer=has_id)


def _invalid(message: str, an_id: Id = None) -> InvalidRequest:
    error = InvalidRequest(message)
    error.id = an_id  # type: ignore[attr-defined]
    return error


def encode_result(an_id: Id, result: Any) -> bytes:
    """An answer."""
    return _encoder.encode(_Result(an_id, result))


def encode_error(an_id: Id, error: TenureError) -> bytes:
    """A refusal: code, one sentence, and the class name and retryable flag as data."""
    data: dict[str, Any] = {"kind": type(error).__name__, "retryable": error.retryable}
    error_id = getattr(error, "error_id", "")
    if error_id:
        data["error_id"] = error_id
    body = {"code": error.code, "message": error.message, "data": data}
    return _encoder.encode(_Error(an_id, body))


def encode_call(an_id: Id, method: str, params: Any) -> bytes:
    """A call of ours (for clients)."""
    return _encoder.encode(_Call(an_id, method, params))


def encode_event(params: EventParams) -> bytes:
    """A published event; encoded once, however many listen."""
    made = params.__dict__
    frame: bytes | None = made.get("frame")
    if frame is None:
        frame = made["frame"] = _encoder.encode(_Event(params))
    return frame
