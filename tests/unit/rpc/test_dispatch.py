"""From a request to its answer, whatever happens."""

from __future__ import annotations

import asyncio
import errno
import json
import logging

import pytest

from tenure.errors import NotFound
from tenure.protocol.messages import Request
from tenure.rpc.dispatch import dispatch
from tenure.rpc.handlers import HANDLERS

METHOD = "gateway.info"


@pytest.fixture
def failing(monkeypatch):
    """Let the method fail with an exception."""

    def fail_with(error: BaseException) -> None:
        async def fail(_params, _call):
            raise error

        monkeypatch.setitem(HANDLERS, METHOD, fail)

    return fail_with


async def answer(params: bytes = b"{}", method: str = METHOD):
    frame = await dispatch(Request(1, method, params), None)
    return json.loads(frame)


async def test_a_fault_of_ours_is_an_answer_with_an_id_that_stands_in_the_log(failing, caplog):
    failing(RuntimeError("a secret of ours"))
    with caplog.at_level(logging.ERROR):
        told = (await answer())["error"]
    assert told["data"]["kind"] == "InternalError" and "a secret" not in told["message"]
    (record,) = caplog.records
    assert told["data"]["error_id"] in record.getMessage() and "a secret" in caplog.text


async def test_what_a_person_can_do_something_about_is_told_as_it_is(failing):
    failing(NotFound("There is none."))
    told = (await answer())["error"]
    assert (told["data"]["kind"], told["message"]) == ("NotFound", "There is none.")


async def test_that_no_descriptor_is_left_passes(failing):
    failing(OSError(errno.EMFILE, "Too many open files"))
    told = (await answer())["error"]
    assert (told["data"]["kind"], told["data"]["retryable"]) == ("Overloaded", True)
    assert "Too many open files" in told["message"]
    failing(OSError(errno.EIO, "Input/output error"))
    assert (await answer())["error"]["data"]["kind"] == "InternalError"


async def test_wrong_params_and_unknown_methods(failing):
    assert (await answer(b"[1]"))["error"]["data"]["kind"] == "InvalidParams"
    assert (await answer(method="no.such"))["error"]["data"]["kind"] == "MethodNotFound"


async def test_without_an_id_nothing_is_answered(failing):
    failing(NotFound("There is none."))
    request = Request(None, METHOD, b"{}", wants_answer=False)
    assert await dispatch(request, None) is None


async def test_a_cancellation_goes_through(failing):
    failing(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await answer()
