"""What every provider promises, whichever wire it speaks.

The starter's real runtime has its own file (`test_model_starter.py`); here a child without a model
stands in for it.
"""

import asyncio
import importlib.util
import json
from pathlib import Path

import pytest

from tenure.clock import SystemClock
from tenure.conversation import Message, ToolSpec
from tenure.errors import ModelError
from tenure.lifecycle.scope import Scope
from tenure.models.base import (
    Finished,
    ModelRequest,
    Progress,
    ReasoningDelta,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
)
from tenure.models.directory import listed
from tenure.models.openai import Endpoint, open_provider
from tenure.models.providers import open_library
from tenure.models.retry import NEVER
from tenure.models.script import Script
from tenure.models.scripted import ScriptedProvider
from tenure.testing.gates import Gate
from tenure.testing.model_server import (
    DONE,
    Answer,
    ModelServer,
    call,
    chunk,
    refuse,
    say,
)

pytestmark = pytest.mark.slow

UNIT = Path(__file__).parents[1] / "unit" / "models"
TOOL = ToolSpec(
    "shell",
    "Run.",
    {
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    },
)


def borrowed(path):
    """A test module's helpers."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Subject:
    """A provider, one of its models, and a way to say what the next answers are."""

    def __init__(self, provider, model, name):
        self.provider = provider
        self.model = model
        self.name = name

    def next(self, *kinds):
        """Prepare answers: text, call, fail, or park (one word, then silence)."""
        raise NotImplementedError

    def request(self, kind):
        return ModelRequest("Be brief.", (Message("user", f"say {kind}"),), (TOOL,))


class ScriptedSubject(Subject):
    steps = {
        "text": {"deltas": ["Hel", "lo!"]},
        "call": {"call": {"name": "shell", "arguments": {"command": "ls"}}},
        "fail": {"error": {"status": 400, "message": "no"}},
        "park": [{"text": "one"}, {"gate": "g"}],
    }

    @classmethod
    async def open(cls, scope, server, folder):
        script = Script([], on=[{"match": f"say {k}", "step": s} for k, s in cls.steps.items()])
        provider = ScriptedProvider(SystemClock(), script)
        return cls(provider, provider.model("x"), "scripted")

    def next(self, *kinds):
        pass  # chosen by what is asked


class OpenAISubject(Subject):
    @classmethod
    async def open(cls, scope, server, folder):
        provider = await open_provider(
            Endpoint("lab", server.base_url),
            scope=scope,
            clock=SystemClock(),
            environ={},
            retry=NEVER,
        )
        subject = cls(provider, provider.model("m"), "lab")
        subject.server = server
        return subject

    def next(self, *kinds):
        answers = {
            "text": lambda: say("Hel", "lo!"),
            "call": lambda: call("shell", {"command": "ls"}),
            "fail": lambda: refuse(400, "no"),
            "park": lambda: Answer(chunk(content="one"), Gate(), DONE),
        }
        self.server.answer(*(answers[kind]() for kind in kinds))


class GroqSubject(OpenAISubject):
    @classmethod
    async def open(cls, scope, server, folder):
        url = server.base_url.removesuffix("/v1")
        provider = await open_library(
            listed("groq", {}), "key", "GROQ_API_KEY", scope=scope, environ={}, base_url=url
        )
        provider.retry = NEVER
        subject = cls(provider, provider.model("m"), "groq")
        subject.server = server
        return subject


class AnthropicSubject(Subject):
    @classmethod
    async def open(cls, scope, server, folder):
        url = server.base_url.removesuffix("/v1")
        provider = await open_library(
            listed("anthropic", {}),
            "key",
            "ANTHROPIC_API_KEY",
            scope=scope,
            environ={},
            base_url=url,
        )
        provider.retry = NEVER
        subject = cls(provider, provider.model("m"), "anthropic")
        subject.server = server
        return subject

    def next(self, *kinds):
        wire = borrowed(UNIT / "test_providers.py")
        answers = {
            "text": lambda: wire.anthropic("Hello!"),
            "call": lambda: wire.anthropic(("shell", {"command": "ls"}), stop="tool_use"),
            "fail": lambda: refuse(400, "no"),
            "park": lambda: wire.anthropic("one", after_first=Gate()),
        }
        self.server.answer(*(answers[kind]() for kind in kinds))


class StarterSubject(Subject):
    words = {"text": "hi", "call": "call it", "fail": "refuse", "park": "slow"}

    @classmethod
    async def open(cls, scope, server, folder):
        lab = borrowed(UNIT / "starter" / "test_provider.py").Lab(folder, scope)
        return cls(lab.provider, lab.provider.model(""), "starter")

    def next(self, *kinds):
        pass  # chosen by what is asked

    def request(self, kind):
        return ModelRequest("Be brief.", (Message("user", self.words[kind]),), (TOOL,))


KINDS = [ScriptedSubject, OpenAISubject, GroqSubject, AnthropicSubject, StarterSubject]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__.removesuffix("Subject").lower())
async def subject(request, tmp_path):
    async with ModelServer() as server, Scope.root("test", SystemClock()) as scope:
        made = await request.param.open(scope, server, tmp_path)
        yield made
        await made.provider.aclose()
        await made.provider.aclose()  # idempotent


async def collect(subject, kind):
    async with subject.model.stream(subject.request(kind)) as events:
        return [event async for event in events]


async def test_the_names_agree(subject):
    assert subject.provider.name == subject.name
    assert subject.model.ref.startswith(f"{subject.name}:")
    assert subject.model.context_tokens > 0
    assert isinstance(subject.model.small, bool)


async def test_text_comes_in_pieces_and_ends_with_finished(subject):
    subject.next("text")
    events = await collect(subject, "text")
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Hello!"
    assert [type(e) for e in events].count(Finished) == 1
    assert events[-1].reason == "stop"
    assert all(e.text for e in events if isinstance(e, TextDelta | ReasoningDelta | Progress))


async def test_a_call_is_announced_then_whole_then_finished(subject):
    subject.next("call")
    events = [e for e in await collect(subject, "call") if not isinstance(e, Progress)]
    assert [type(e) for e in events] == [ToolCallStarted, ToolCallReady, Finished]
    assert events[0].name == events[1].call.name == "shell"
    assert json.loads(events[1].call.arguments) == {"command": "ls"}
    assert events[1].call.id
    assert events[2].reason == "tool_calls"


async def test_calls_have_different_ids(subject):
    if isinstance(subject, OpenAISubject | AnthropicSubject):
        pytest.skip("the server gives the ids")
    subject.next("call", "call")
    ids = [
        e.call.id
        for _ in range(2)
        for e in await collect(subject, "call")
        if isinstance(e, ToolCallReady)
    ]
    assert len(set(ids)) == 2


async def test_a_failure_is_a_model_error_and_the_next_call_works(subject):
    subject.next("fail", "text")
    with pytest.raises(ModelError) as caught:
        await collect(subject, "fail")
    assert caught.value.provider == subject.name
    assert caught.value.message
    assert isinstance((await collect(subject, "text"))[-1], Finished)


async def test_leaving_early_frees_the_stream(subject):
    subject.next("park", "text")
    async with subject.model.stream(subject.request("park")) as events:
        while not isinstance(await anext(events), TextDelta):
            pass
    assert isinstance((await collect(subject, "text"))[-1], Finished)


async def test_a_cancelled_reader_frees_the_stream(subject):
    subject.next("park", "text")
    heard = asyncio.Event()

    async def read():
        async with subject.model.stream(subject.request("park")) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    heard.set()

    task = asyncio.get_running_loop().create_task(read())
    async with asyncio.timeout(30):
        await heard.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance((await collect(subject, "text"))[-1], Finished)


async def test_a_bad_name_is_refused(subject):
    if subject.name == "scripted":
        pytest.skip("a script's name is a path")
    with pytest.raises(Exception, match="model"):
        subject.provider.model("no such\nname")


async def test_the_models_can_be_listed(subject):
    if isinstance(subject, OpenAISubject) and subject.name == "lab":
        pytest.skip("asks the server; see test_openai")
    assert isinstance(await subject.provider.list_models(), list)
