"""From a request to its answer: find the method, check the params, run the handler, tell.

The one place of this layer that catches everything: a fault of ours becomes an answer with an id.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from tenure.errors import InternalError, InvalidParams, MethodNotFound, Overloaded, TenureError
from tenure.ids import new_id
from tenure.processes.procfs import SCARCE
from tenure.protocol.messages import Request, encode_error, encode_result
from tenure.protocol.methods import DISABLED, DISABLED_PREFIXES, METHODS
from tenure.rpc.handlers import HANDLERS
from tenure.rpc.ports import Call
from tenure.sense import mistake

log = logging.getLogger("tenure.rpc")
Handler = Callable[[Any, Call], Awaitable[Any]]

_decoders = {name: msgspec.json.Decoder(entry[0]) for name, entry in METHODS.items()}


async def dispatch(request: Request, call: Call) -> bytes | None:
    """Run a request; its answer as a frame, or None where none is wanted. Never raises an error.

    Cancellation: goes through; the connection is ending and nobody waits for the answer.
    """
    try:
        frame = encode_result(request.id, await _run(request, call))
    except TenureError as exc:
        frame = encode_error(request.id, exc)
    except Exception as exc:  # noqa: BLE001 - whatever it is, an answer tells it
        frame = encode_error(request.id, _fault(request, exc))
    return frame if request.wants_answer else None


def _fault(request: Request, exc: Exception) -> TenureError:
    """What is told of an error that nobody has foreseen. Called while it is handled."""
    if isinstance(exc, OSError) and exc.errno in SCARCE:
        return Overloaded(f"{request.method} found the gateway short ({exc.strerror}); try again.")
    error_id = new_id("err")
    log.error("%s: %s failed", error_id, request.method, exc_info=exc)
    text = (
        f"{request.method} failed inside the gateway (error {error_id}); "
        f"see `tenure logs {error_id}`."
    )
    return InternalError(text, error_id=error_id)


async def _run(request: Request, call: Call) -> Any:
    handler = HANDLERS.get(request.method)
    if handler is None:
        return _disabled(request.method)
    return await handler(_params(request), call)


def _params(request: Request) -> Any:
    try:
        return _decoders[request.method].decode(request.params)
    except msgspec.ValidationError as exc:
        key, text = mistake(exc, METHODS[request.method][0])
        told = f"{key} {text}".strip()
        raise InvalidParams(f"The params of {request.method} are wrong: {told}") from None


def _disabled(method: str) -> Any:
    if method in DISABLED:
        return DISABLED[method]
    if method.startswith(DISABLED_PREFIXES):
        return {}
    raise MethodNotFound(f"There is no method {method[:80]!r}; docs/protocol.md lists all.")
