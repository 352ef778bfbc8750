"""The library's providers against stubs that speak their wire."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import pytest

from tenure.conversation import Message, ToolSpec, Upload, Usage
from tenure.errors import (
    ConfigError,
    ModelBlind,
    ModelError,
    ModelGarbage,
    ModelOverloaded,
    ModelUnauthorized,
)
from tenure.models import providers
from tenure.models.base import (
    BLIND,
    Finished,
    ModelRequest,
    Progress,
    Sight,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
)
from tenure.models.directory import listed
from tenure.models.providers import open_library
from tenure.models.retry import NEVER, RetryPolicy
from tenure.testing.gates import Gate
from tenure.testing.model_server import DONE, Answer, call, chunk, refuse, say

pytestmark = pytest.mark.slow

KEY = "sk-ant-secret-0123456789"
ASK = ModelRequest("Be brief.", (Message("user", "hello"),))
TOOL = ToolSpec(
    "read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}}
)


def anthropic_event(kind, **data):
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


def anthropic(*blocks, stop="end_turn", after_first=b""):
    """A streamed message of text blocks (str) and calls (name, arguments)."""
    start = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": 1, "cache_read_input_tokens": 5},
    }
    pieces = [anthropic_event("message_start", message=start)]
    for index, block in enumerate(blocks):
        if isinstance(block, str):
            content = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block}
        else:
            content = {"type": "tool_use", "id": f"call_{index}", "name": block[0], "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block[1])}
        pieces += [
            anthropic_event("content_block_start", index=index, content_block=content),
            anthropic_event("content_block_delta", index=index, delta=delta),
        ]
        if index == 0 and after_first:
            pieces.append(after_first)
        pieces.append(anthropic_event("content_block_stop", index=index))
    ended = {"stop_reason": stop, "stop_sequence": None}
    pieces += [
        anthropic_event("message_delta", delta=ended, usage={"output_tokens": 7}),
        anthropic_event("message_stop"),
    ]
    return Answer(*pieces)


@pytest.fixture
async def connect(server, scope, clock):
    @asynccontextmanager
    async def connect(name="anthropic", retry=NEVER):
        url = server.base_url.removesuffix("/v1")
        provider = await open_library(
            listed(name, {}), KEY, f"{name.upper()}_API_KEY", scope=scope, environ={}, base_url=url
        )
        provider.retry = retry
        provider.clock = clock
        try:
            yield provider
        finally:
            await provider.aclose()

    return connect


async def collect(model, request=ASK):
    async with model.stream(request) as events:
        return [event async for event in events]


def text_of(events):
    return "".join(e.text for e in events if isinstance(e, TextDelta))


async def test_anthropic_answers(server, connect):
    server.answer(anthropic("Hello wörld"))
    async with connect() as provider:
        model = provider.model("")
        events = await collect(model)
    assert model.ref == "anthropic:claude-sonnet-5-5"
    assert text_of(events) == "Hello wörld"
    assert events[-1] == Finished("stop", Usage(input=17, output=7, cached=5))
    [request] = server.requests
    assert request.path.startswith("/v1/messages")
    assert KEY in str([request.headers.get(n) for n in ("x-api-key", "authorization")])
    assert request.body["system"][0]["text"] == "Be brief."
    assert request.body["stream"] is True


async def test_anthropic_calls_a_tool_and_reads_the_result(server, connect):
    server.answer(
        anthropic("I look.", ("read", {"path": "a"}), stop="tool_use"), anthropic("Done.")
    )
    async with connect() as provider:
        model = provider.model("claude-x")
        events = await collect(model, ModelRequest("", ASK.messages, (TOOL,)))
        [ready] = [e for e in events if isinstance(e, ToolCallReady)]
        assert [e.name for e in events if isinstance(e, ToolCallStarted)] == ["read"]
        assert (ready.call.id, ready.call.name) == ("call_1", "read")
        assert json.loads(ready.call.arguments) == {"path": "a"}
        assert events[-1].reason == "tool_calls"
        history = (
            Message("user", "hello"),
            Message("assistant", "I look.", (ready.call,)),
            Message("tool", "no such file", tool_call_id="call_1", is_error=True),
        )
        request = ModelRequest("", history, (TOOL,), text_only=True)
        assert text_of(await collect(model, request)) == "Done."
    sent = server.requests[1].body["messages"]
    assert [m["role"] for m in sent] == ["user", "assistant", "user"]
    assert [b["type"] for b in sent[1]["content"]] == ["text", "tool_use"]
    assert sent[2]["content"][0]["tool_use_id"] == "call_1"
    assert server.requests[1].body["tool_choice"]["type"] == "none"


async def test_groq_answers_and_calls(server, connect):
    server.answer(say("Hel", "lo"), call("read", {"path": "a"}))
    async with connect("groq") as provider:
        model = provider.model("llama-x")
        assert text_of(await collect(model)) == "Hello"
        events = await collect(model, ModelRequest("", ASK.messages, (TOOL,)))
        [ready] = [e for e in events if isinstance(e, ToolCallReady)]
        assert ready.call.name == "read"
        assert json.loads(ready.call.arguments) == {"path": "a"}
    assert server.requests[0].path == "/openai/v1/chat/completions"


REFUSALS = [
    (
        refuse(401, f"invalid x-api-key {KEY}"),
        ModelUnauthorized,
        ["ANTHROPIC_API_KEY", "tenure model login anthropic", "invalid x-api-key"],
    ),
    (refuse(429, "Slow down", retry_after="7"), ModelOverloaded, ["Slow down"]),
    (refuse(500, "Oops"), ModelOverloaded, ["Oops"]),
    (refuse(529, "Overloaded"), ModelOverloaded, ["Overloaded"]),
    (refuse(404, "model: nope"), ModelError, ["claude-x"]),
    (Answer(b"<html>hi</html>", content_type="text/html"), ModelGarbage, []),
    (Answer(), ModelGarbage, []),
    (Answer(b"event: message_start\ndata: {broken\n\n"), ModelGarbage, []),
]


@pytest.mark.parametrize(("answer", "leaf", "words"), REFUSALS)
async def test_each_failure_is_one_sentence_without_the_key(server, connect, answer, leaf, words):
    server.answer(answer)
    async with connect() as provider:
        with pytest.raises(ModelError) as caught:
            await collect(provider.model("claude-x"))
        server.answer(anthropic("fine"))
        assert text_of(await collect(provider.model("claude-x"))) == "fine"
    assert type(caught.value) is leaf
    for word in ["anthropic", *words]:
        assert word in caught.value.message
    assert "secret" not in caught.value.message
    assert "\n" not in caught.value.message


async def test_nobody_listens(server, scope, clock):
    provider = await open_library(
        listed("anthropic", {}),
        KEY,
        "ANTHROPIC_API_KEY",
        scope=scope,
        environ={},
        base_url="http://127.0.0.1:9",
    )
    provider.retry = NEVER
    with pytest.raises(ModelOverloaded, match="cannot be reached"):
        await collect(provider.model("claude-x"))
    await provider.aclose()
    await provider.aclose()


async def test_a_retry_is_ours_and_visible(server, connect, clock):
    server.answer(refuse(529, "Overloaded"), anthropic("at last"))
    async with connect(retry=RetryPolicy(jitter=0)) as provider:
        async with provider.model("claude-x").stream(ASK) as events:
            first = await anext(events)
            assert isinstance(first, Progress)
            assert len(server.requests) == 1
            task = asyncio.get_running_loop().create_task(anext(events))
            while not clock.pending:
                await asyncio.sleep(0.001)
            clock.advance(1)
            assert await task == TextDelta("at last")


async def test_leaving_the_stream_hangs_up_at_the_server(server, connect):
    gate = Gate()
    server.answer(anthropic("one", "two", after_first=gate))
    async with connect() as provider:
        async with provider.model("claude-x").stream(ASK) as events:
            assert await anext(events) == TextDelta("one")
            await gate.wait_parked()
        async with asyncio.timeout(30):
            await server.requests[0].gone.wait()


async def test_a_cancelled_reader_hangs_up_at_the_server(server, connect):
    gate = Gate()
    server.answer(Answer(chunk(content="one"), gate, chunk("stop"), DONE))
    async with connect("groq") as provider:
        task = asyncio.get_running_loop().create_task(collect(provider.model("x")))
        await gate.wait_parked()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(30):
            await server.requests[0].gone.wait()


async def test_a_missing_extra_names_the_command(scope, monkeypatch):
    for name in [n for n in sys.modules if n.startswith("pydantic_ai.models.anthropic")]:
        monkeypatch.delitem(sys.modules, name)

    async def missing(name):
        raise ModuleNotFoundError("no", name=name)

    monkeypatch.setattr(providers, "import_off_loop", missing)
    with pytest.raises(ConfigError, match=r"pip install 'tenure\[providers\]'"):
        await open_library(listed("anthropic", {}), KEY, "A", scope=scope, environ={})


async def test_a_missing_key_names_the_variable(scope):
    with pytest.raises(ModelUnauthorized, match="ANTHROPIC_API_KEY"):
        await open_library(
            listed("anthropic", {}), "", "ANTHROPIC_API_KEY", scope=scope, environ={}
        )


@pytest.mark.parametrize("name", ["google", "mistral", "bedrock"])
async def test_the_others_can_be_made(scope, name):
    provider = await open_library(listed(name, {}), KEY, "X", scope=scope, environ={})
    assert provider.model("").ref.startswith(f"{name}:")
    models = await provider.list_models()
    assert models[0].name == listed(name, {}).default_model
    assert len(models) > 3
    await provider.aclose()


IMAGE = Upload(id="f1", digest="d1", kind="image", type="image/png", name="a.png", size=3)
PDF = Upload(id="f2", digest="d2", kind="pdf", type="application/pdf", name="b.pdf", size=8)
SEEN = ModelRequest(
    "", (Message("user", "look", files=(IMAGE, PDF)),), media={"d1": b"png", "d2": b"%PDF-1.4"}
)


async def test_anthropic_is_sent_images_and_pdfs_as_they_are(server, connect):
    server.answer(anthropic("I see."))
    async with connect() as provider:
        model = provider.model("")
        assert model.sight == Sight(images=True, pdfs=True)
        await collect(model, SEEN)
    (message,) = server.requests[0].body["messages"]
    image, pdf, text = message["content"]
    assert image["source"] == {"type": "base64", "media_type": "image/png", "data": "cG5n"}
    assert pdf["type"] == "document" and pdf["source"]["media_type"] == "application/pdf"
    assert text["text"] == "look"


async def test_groq_gets_the_text_of_pdfs_and_what_its_models_do_not_see_is_known(connect):
    async with connect("groq") as provider:
        assert provider.model("openai/gpt-oss-120b").sight == Sight(images=False)


async def test_a_model_that_refuses_an_image_is_believed(server, connect):
    async with connect("groq") as provider:
        model = provider.model("unheard-of")
        assert model.sight == Sight(images=None)
        request = ModelRequest("", (Message("user", "look", files=(IMAGE,)),), media=SEEN.media)
        server.answer(refuse(400, "messages[0].content: image input is not supported"))
        with pytest.raises(ModelBlind, match="groq:unheard-of does not take images; choose"):
            await collect(model, request)
        assert model.sight == BLIND
