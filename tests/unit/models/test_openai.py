"""The OpenAI-compatible provider against a real server on loopback."""

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest

from tenure.conversation import Message, ToolCall, ToolSpec, Upload, Usage
from tenure.errors import (
    BadValue,
    ConfigError,
    ModelBlind,
    ModelError,
    ModelGarbage,
    ModelOverloaded,
    ModelUnauthorized,
)
from tenure.lifecycle.scope import Scope
from tenure.models import chat_wire
from tenure.models.base import (
    BLIND,
    Finished,
    ModelRequest,
    Progress,
    ReasoningDelta,
    Sight,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
)
from tenure.models.openai import DRAIN_S, Endpoint, open_provider
from tenure.models.retry import NEVER, RetryPolicy
from tenure.testing.clock import ManualClock, settle
from tenure.testing.gates import Gate
from tenure.testing.model_server import (
    DONE,
    Answer,
    ModelServer,
    call,
    chunk,
    event,
    models,
    refuse,
    say,
    usage,
)
from tenure.testing.waiting import until

KEY = "sk-secret-0123456789"
ASK = ModelRequest("Be brief.", (Message("user", "hello"),), session_id="s1")
TOOL = ToolSpec(
    "read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}}
)


@pytest.fixture
async def connect(server, scope, clock):
    @asynccontextmanager
    async def connect(*, retry=NEVER, **endpoint):
        where = Endpoint("lab", server.base_url, KEY, "LAB_API_KEY", **endpoint)
        provider = await open_provider(where, scope=scope, clock=clock, environ={}, retry=retry)
        try:
            yield provider
        finally:
            await provider.aclose()

    return connect


async def collect(model, request=ASK):
    async with asyncio.timeout(30), model.stream(request) as events:
        return [event async for event in events]


def text_of(events):
    return "".join(e.text for e in events if isinstance(e, TextDelta))


async def test_a_plain_answer(server, connect):
    server.answer(say("Hel", "lo ", "wörld", reasoning="hm"))
    async with connect() as provider:
        model = provider.model("m1")
        events = await collect(model)
    assert model.ref == "lab:m1"
    assert events[0] == ReasoningDelta("hm")
    assert text_of(events) == "Hello wörld"
    assert events[-1] == Finished("stop", Usage(3, 2))
    [request] = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "m1",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hello"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_history_tools_and_limits_are_translated(server, connect):
    server.answer(say("ok"))
    history = (
        Message("user", "read a"),
        Message("assistant", "", (ToolCall("c1", "read", '{"path": "a"}'),)),
        Message("tool", "text of a", tool_call_id="c1"),
    )
    request = ModelRequest("", history, (TOOL,), max_tokens=9, temperature=0.0, text_only=True)
    async with connect() as provider:
        await collect(provider.model("m1"), request)
    body = server.requests[0].body
    assert body["messages"] == [
        {"role": "user", "content": "read a"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"path": "a"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "text of a"},
    ]
    assert body["tools"][0]["function"]["parameters"] == TOOL.parameters
    assert (body["tool_choice"], body["max_tokens"], body["temperature"]) == ("none", 9, 0.0)


async def test_a_tool_call_in_pieces(server, connect):
    server.answer(call("read", {"path": "ä"}, text="Let me see."))
    async with connect() as provider:
        events = await collect(provider.model("m1"))
    assert events[:2] == [TextDelta("Let me see."), ToolCallStarted(0, "read")]
    assert events[2] == ToolCallReady(ToolCall("call_1", "read", '{"path": "\\u00e4"}'))
    assert events[3].reason == "tool_calls"


async def test_parallel_calls_keep_their_order_and_may_lack_an_index(server, connect):
    def part(call_id, name, arguments, **index):
        function = {"name": name, "arguments": arguments}
        return chunk(tool_calls=[{**index, "id": call_id, "function": function}])

    more = chunk(tool_calls=[{"function": {"arguments": "}"}}])
    server.answer(
        Answer(
            part("b", "two", "{}", index=1), part("a", "one", "{}", index=0), chunk("stop"), DONE
        ),
        Answer(part("a", "one", "{}"), part("b", "two", "{"), more, chunk("stop"), DONE),
    )
    async with connect() as provider:
        for _ in range(2):
            events = await collect(provider.model("m1"))
            calls = [e.call for e in events if isinstance(e, ToolCallReady)]
            assert [(c.id, c.name, c.arguments) for c in calls] == [
                ("a", "one", "{}"),
                ("b", "two", "{}"),
            ]
            assert events[-1].reason == "tool_calls"


async def test_invalid_arguments_are_passed_on_as_written(server, connect):
    server.answer(call("read", '{"path": '))
    async with connect() as provider:
        events = await collect(provider.model("m1"))
    assert [e.call.arguments for e in events if isinstance(e, ToolCallReady)] == ['{"path": ']


@pytest.mark.parametrize(
    "printed",
    [
        '```json\n{"name": "read", "arguments": {"path": "a"}}\n```',
        '<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>',
    ],
)
async def test_a_call_printed_as_text_stays_text(server, connect, printed):
    server.answer(say(printed))
    async with connect() as provider:
        events = await collect(provider.model("m1"), ModelRequest("", ASK.messages, (TOOL,)))
    assert text_of(events) == printed
    assert not [e for e in events if isinstance(e, ToolCallReady)]


async def test_an_answer_that_was_not_streamed(server, connect):
    body = b'{"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}'
    server.answer(Answer(body, content_type="application/json"))
    async with connect() as provider:
        assert text_of(await collect(provider.model("m1"))) == "whole"


async def test_cached_tokens_and_the_length_reason(server, connect):
    server.answer(Answer(chunk("length", content="cut"), usage(100, 5, cached=80), DONE))
    async with connect() as provider:
        events = await collect(provider.model("m1"))
    assert events[-1] == Finished("length", Usage(100, 5, 80))


async def test_the_end_may_lack_done_but_not_the_reason(server, connect):
    server.answer(Answer(chunk("stop", content="x")), Answer(chunk(content="x")))
    async with connect() as provider:
        assert text_of(await collect(provider.model("m1"))) == "x"
        with pytest.raises(ModelGarbage, match="broke off before its end"):
            await collect(provider.model("m1"))


REFUSALS = [
    (
        refuse(401, f"Incorrect API key provided: {KEY}"),
        ModelUnauthorized,
        ["LAB_API_KEY", "tenure model login lab", "Incorrect API key provided"],
    ),
    (refuse(403, "No access"), ModelUnauthorized, ["LAB_API_KEY", "No access"]),
    (refuse(429, "Slow down", retry_after="7"), ModelOverloaded, ["Slow down", "wait 7 s"]),
    (refuse(500, "Oops"), ModelOverloaded, ["HTTP 500", "Oops"]),
    (refuse(503, "Loading"), ModelOverloaded, ["HTTP 503", "Loading"]),
    (refuse(404, "no such model"), ModelError, ["m1", "no such model"]),
    (refuse(400, "context too long"), ModelError, ["context too long"]),
    (
        Answer(b"<html><title>502 Bad Gateway</title>", status=502, content_type="text/html"),
        ModelOverloaded,
        ["502 Bad Gateway"],
    ),
    (Answer(b"<html>hi</html>", content_type="text/html"), ModelGarbage, ["web page"]),
    (Answer(b"<html>hi</html>"), ModelGarbage, ["empty"]),
    (Answer(), ModelGarbage, ["empty"]),
    (Answer(DONE), ModelGarbage, ["empty"]),
    (Answer(event("{broken")), ModelGarbage, ["{broken"]),
    (Answer(event('{"choices": "what"}')), ModelGarbage, ["choices"]),
    (
        Answer(event("\udcff".encode("utf-8", "surrogateescape").decode("latin-1"))),
        ModelGarbage,
        [],
    ),
    (Answer(b"{}", content_type="application/json"), ModelGarbage, []),
    (Answer(chunk(content="half"), abort=True), ModelGarbage, ["broke off"]),
    (Answer(abort=True), ModelOverloaded, ["connection broke"]),
    (
        Answer(chunk(content="x"), event({"error": {"message": "Engine died", "code": 500}})),
        ModelOverloaded,
        ["Engine died"],
    ),
    (
        Answer(event({"error": {"message": "Rate limit reached", "type": "rate_limit"}})),
        ModelOverloaded,
        ["Rate limit reached"],
    ),
    (Answer(event({"error": "nonsense"})), ModelError, ["nonsense"]),
    (
        Answer(
            chunk(tool_calls=[{"index": 0, "function": {"arguments": "{}"}}]), chunk("stop"), DONE
        ),
        ModelGarbage,
        ["no name"],
    ),
]


@pytest.mark.parametrize(("answer", "leaf", "words"), REFUSALS)
async def test_each_failure_is_one_sentence_without_the_key(server, connect, answer, leaf, words):
    server.answer(answer)
    async with connect() as provider:
        with pytest.raises(ModelError) as caught:
            await collect(provider.model("m1"))
        # the next call is not disturbed
        server.answer(say("fine"))
        assert text_of(await collect(provider.model("m1"))) == "fine"
    error = caught.value
    assert type(error) is leaf
    assert error.provider == "lab"
    for word in ["lab", *words]:
        assert word in error.message
    assert "secret" not in error.message
    assert "\n" not in error.message


async def test_retry_after_is_told(server, connect):
    server.answer(refuse(429, "Slow down", retry_after="7"))
    async with connect() as provider:
        with pytest.raises(ModelOverloaded) as caught:
            await collect(provider.model("m1"))
    assert (caught.value.retry_after_s, caught.value.status) == (7.0, 429)


async def test_nobody_listens(scope, clock):
    async with ModelServer() as server:
        url = server.base_url
    provider = await open_provider(
        Endpoint("lab", url), scope=scope, clock=clock, environ={}, retry=NEVER
    )
    with pytest.raises(ModelOverloaded, match="cannot be reached: connection refused"):
        await collect(provider.model("m1"))
    await provider.aclose()


async def test_it_tries_again_while_nothing_was_said(server, connect, clock):
    server.answer(refuse(503, "Loading"), refuse(429, "Busy", retry_after="4"), say("at last"))
    async with connect(retry=RetryPolicy(jitter=0)) as provider:
        async with provider.model("m1").stream(ASK) as events:
            first = await anext(events)
            assert isinstance(first, Progress)
            assert "Loading" in first.text
            assert "Retrying in 0.5 s (1 of 2)" in first.text
            second = await advanced(clock, events, 0.5)
            assert "Retrying in 4.0 s (2 of 2)" in second.text
            assert await advanced(clock, events, 4) == TextDelta("at last")
            assert [type(e) async for e in events] == [Finished]


async def test_it_does_not_repeat_what_was_said(server, connect):
    server.answer(
        Answer(chunk(content="half"), event({"error": {"message": "overloaded", "code": 503}})),
        say("never asked"),
    )
    async with connect(retry=RetryPolicy(jitter=0)) as provider:
        with pytest.raises(ModelOverloaded):
            await collect(provider.model("m1"))
    assert len(server.requests) == 1


async def test_it_gives_up(server, connect, clock):
    server.answer(*[refuse(503, "Loading")] * 5)
    async with connect(retry=RetryPolicy(jitter=0)) as provider:
        task = asyncio.get_running_loop().create_task(collect(provider.model("m1")))
        while not task.done():
            clock.advance(1)
            await asyncio.sleep(0.001)
        with pytest.raises(ModelOverloaded):
            await task
    assert len(server.requests) == 3


async def test_the_connection_is_used_again(server, connect):
    server.answer(say("a"), say("b"))
    async with connect() as provider:
        await collect(provider.model("m1"))
        assert server.connections == 1
        await collect(provider.model("m1"))
        assert server.connections == 1
    assert server.accepted == 1


async def test_a_connection_that_was_closed_meanwhile_is_replaced_silently(server, connect):
    server.answer(say("a"), Answer(hang_up=True), say("b"))
    async with connect() as provider:
        await collect(provider.model("m1"))
        events = await collect(provider.model("m1"))
    assert [type(e) for e in events] == [TextDelta, Finished]
    assert server.accepted == 2


async def test_a_server_that_only_hangs_up_cannot_be_reached(server, connect):
    server.fallback = Answer(hang_up=True)
    async with connect() as provider:
        with pytest.raises(ModelOverloaded, match="hung up without an answer"):
            await collect(provider.model("m1"))
    assert len(server.requests) == 2


async def test_a_server_that_does_not_end_its_body_is_not_waited_for(server, connect, clock):
    gate = Gate()
    server.answer(Answer(chunk("stop", content="x"), DONE, gate))
    async with connect() as provider:
        async with provider.model("m1").stream(ASK) as events:
            assert [type(await anext(events)) for _ in range(2)] == [TextDelta, Finished]
            task = asyncio.get_running_loop().create_task(anext(events, None))
            await gate.wait_parked()
            await until(lambda: clock.due_in(DRAIN_S), "it has read the end, and waits for no more")
            clock.advance(1)
            assert await task is None


async def test_leaving_the_stream_hangs_up_at_the_server(server, connect):
    gate = Gate()
    server.answer(Answer(chunk(content="one"), gate), say("next"))
    async with connect() as provider:
        async with provider.model("m1").stream(ASK) as events:
            assert await anext(events) == TextDelta("one")
        async with asyncio.timeout(30):
            await server.requests[0].gone.wait()
        assert text_of(await collect(provider.model("m1"))) == "next"


async def test_a_cancelled_reader_hangs_up_at_the_server(server, connect):
    gate = Gate()
    server.answer(Answer(chunk(content="one"), gate))
    async with connect() as provider:
        task = asyncio.get_running_loop().create_task(collect(provider.model("m1")))
        await gate.wait_parked()
        await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(30):
            await server.requests[0].gone.wait()


async def test_a_missing_name_is_taken_from_the_list(server, connect):
    server.by_path["/v1/models"] = models("first", "second")
    server.answer(say("a"), say("b"))
    async with connect() as provider:
        assert [m.name for m in await provider.list_models()] == ["first", "second"]
        model = provider.model("")
        await collect(model)
        assert model.ref == "lab:first"
        await collect(provider.model(""))
    assert [r.body["model"] for r in server.requests if r.body] == ["first", "first"]
    assert len([r for r in server.requests if r.method == "GET"]) == 2


@pytest.mark.parametrize(
    ("answer", "leaf", "words"),
    [
        (models(), ModelError, "offers no model"),
        (refuse(401, "no"), ModelUnauthorized, "LAB_API_KEY"),
        (Answer(b"<html>", content_type="text/html"), ModelGarbage, "not JSON"),
    ],
)
async def test_a_bad_model_list(server, connect, answer, leaf, words):
    server.by_path["/v1/models"] = answer
    async with connect() as provider:
        with pytest.raises(ModelError, match=words) as caught:
            await collect(provider.model(""))
    assert type(caught.value) is leaf


async def test_windows_are_configured_told_or_known(server, connect):
    body = b'{"data": [{"id": "v", "max_model_len": 4096}, {"id": "o", "context_length": 9000}]}'
    server.by_path["/v1/models"] = Answer(body, content_type="application/json")
    async with connect() as provider:
        assert provider.model("gpt-4o-mini").context_tokens == 128_000
        assert provider.model("unheard-of").context_tokens == 32_768
        assert [m.context_tokens for m in await provider.list_models()] == [4096, 9000]
        assert provider.model("v").context_tokens == 4096
    async with connect(context_tokens=77) as provider:
        assert provider.model("v").context_tokens == 77


async def test_a_bad_name_and_a_bad_url(scope, clock, connect):
    async with connect() as provider:
        with pytest.raises(BadValue):
            provider.model("a b")
    with pytest.raises(ConfigError, match="is no base URL"):
        await open_provider(Endpoint("x", "localhost:1234"), scope=scope, clock=clock, environ={})


def test_a_key_does_not_show_in_repr():
    assert KEY not in repr(Endpoint("lab", "http://x", KEY))
    assert KEY not in repr(Endpoint("lab", "http://x", KEY).origin)


async def advanced(clock, events, seconds):
    """The next event, which comes `seconds` later."""
    task = asyncio.get_running_loop().create_task(anext(events))
    await until(lambda: task.done() or clock.due_in(seconds), "it waits")
    assert not task.done()
    clock.advance(seconds)
    return await task


IMAGE = Upload(id="f1", digest="d1", kind="image", type="image/png", name="a.png", size=3)
PDF = Upload(id="f2", digest="d2", kind="pdf", type="application/pdf", name="b.pdf", size=3)
SEEN = ModelRequest(
    "", (Message("user", "look", files=(IMAGE, PDF)),), media={"d1": b"png", "d2": b"pdf"}
)


async def test_files_go_as_parts_before_the_text(server, connect):
    async with connect() as provider:
        server.answer(say("I see."))
        await collect(provider.model("m"), SEEN)
    (message,) = server.requests[0].body["messages"]
    assert message == {
        "role": "user",
        "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
            {
                "type": "file",
                "file": {
                    "filename": "b.pdf",
                    "file_data": "data:application/pdf;base64,cGRm",
                },
            },
            {"type": "text", "text": "look"},
        ],
    }


async def test_who_sees_is_known_by_name_else_tried_else_as_the_server_has_shown(server, connect):
    async with connect() as provider:
        assert provider.model("gpt-4o").sight == Sight(images=True)
        assert provider.model("vendor/gpt-oss-120b").sight == BLIND
        model = provider.model("unheard-of")
        assert model.sight == Sight(images=None)
        server.answer(refuse(500, "boom"), refuse(400, "bad name"))
        for _ in range(2):
            with pytest.raises(ModelError) as caught:
                await collect(model, SEEN)
            assert not isinstance(caught.value, ModelBlind) and model.sight.images is None
        server.answer(refuse(400, "image_url is not supported by this model"))
        with pytest.raises(ModelBlind, match="lab:unheard-of does not take images; choose"):
            await collect(model, SEEN)
        assert model.sight == provider.model("unheard-of").sight == BLIND
        server.answer(refuse(400, "no image here, yet it says so"))
        with pytest.raises(ModelError) as caught:
            await collect(model)
        assert not isinstance(caught.value, ModelBlind)


async def test_only_those_that_read_pdfs_get_them(server, connect):
    async with connect() as provider:
        assert not provider.model("gpt-4o").sight.pdfs
    for where in (
        Endpoint("openai", "https://api.openai.com/v1"), Endpoint("openrouter", "https://x/v1"),
    ):  # fmt: skip
        async with _at(where) as provider:
            assert provider.model("gpt-6").sight == Sight(images=True, pdfs=True)


@asynccontextmanager
async def _at(where):
    scope = Scope.root("models", ManualClock())
    provider = await open_provider(where, scope=scope, clock=scope.clock, environ={})
    try:
        yield provider
    finally:
        await provider.aclose()
        await scope.close()


async def test_only_a_body_with_files_is_made_off_the_loop(server, connect, monkeypatch):
    threads, made = [], chat_wire.request_body

    def request_body(*args, **more):
        threads.append(threading.current_thread())
        return made(*args, **more)

    monkeypatch.setattr(chat_wire, "request_body", request_body)
    async with connect() as provider:
        server.answer(say("one"), say("two"))
        await collect(provider.model("m"))
        await collect(provider.model("m"), SEEN)
    first, second = threads
    assert first is threading.main_thread() is not second
