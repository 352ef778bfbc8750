"""The scripted model: order, sessions, gates, failures, files."""

import asyncio
import json

import pytest

from tenure.clock import SystemClock
from tenure.conversation import Message, Usage
from tenure.errors import ConfigError, ModelError, ModelGarbage, ModelOverloaded, ModelUnauthorized
from tenure.models.base import (
    Finished,
    ModelRequest,
    Progress,
    ReasoningDelta,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
)
from tenure.models.script import Script
from tenure.models.scripted import ScriptedProvider


def ask(text="hello", session="s"):
    return ModelRequest("system", (Message("user", text),), session_id=session)


def play(script):
    return ScriptedProvider(SystemClock(), script).model("x")


async def collect(model, request=None):
    async with model.stream(request or ask()) as events:
        return [event async for event in events]


def text_of(events):
    return "".join(e.text for e in events if isinstance(e, TextDelta))


async def test_each_session_gets_the_script_from_its_beginning():
    model = play(Script([{"text": "one"}, {"text": "two"}]))
    assert text_of(await collect(model, ask(session="a"))) == "one"
    assert text_of(await collect(model, ask(session="b"))) == "one"
    assert text_of(await collect(model, ask(session="a"))) == "two"
    assert text_of(await collect(model, ask(session="a"))) == "The script has ended."


async def test_a_looping_script_starts_again():
    model = play(Script([{"text": "one"}, {"text": "two"}], loop=True))
    assert [text_of(await collect(model)) for _ in range(3)] == ["one", "two", "one"]


async def test_actions_of_a_step_run_in_order():
    step = [
        {"progress": "loading"},
        {"reasoning": "hm"},
        {"text": "two  words\n"},
        {"call": {"name": "read", "arguments": {"path": "a"}}},
        {"call": {"name": "read", "arguments": "{broken", "id": "mine"}},
        {"usage": {"input": 7, "output": 3}},
    ]
    events = await collect(play(Script([step])))
    kinds = [type(e) for e in events]
    assert kinds == [
        Progress,
        ReasoningDelta,
        TextDelta,
        TextDelta,
        ToolCallStarted,
        ToolCallReady,
        ToolCallStarted,
        ToolCallReady,
        Finished,
    ]
    assert text_of(events) == "two  words\n"
    calls = [e.call for e in events if isinstance(e, ToolCallReady)]
    assert [c.id for c in calls] == ["call_1_0", "mine"]
    assert json.loads(calls[0].arguments) == {"path": "a"}
    assert calls[1].arguments == "{broken"
    assert events[-1] == Finished("tool_calls", Usage(7, 3))


async def test_an_aside_answers_by_content_and_keeps_the_place():
    script = Script([{"text": "one"}], on=[{"match": "title", "step": {"text": "A title"}}])
    model = play(script)
    assert text_of(await collect(model, ask("give a title"))) == "A title"
    assert text_of(await collect(model)) == "one"
    assert [r.messages[0].text for r in script.requests] == ["give a title", "hello"]


@pytest.mark.parametrize(
    ("error", "leaf"),
    [
        ({"status": 401}, ModelUnauthorized),
        ({"kind": "unauthorized"}, ModelUnauthorized),
        ({"status": 429, "retry_after_s": 3}, ModelOverloaded),
        ({"kind": "overloaded"}, ModelOverloaded),
        ({"status": 500}, ModelOverloaded),
        ({"kind": "garbage"}, ModelGarbage),
        ({"message": "Boom."}, ModelError),
    ],
)
async def test_errors_are_the_leaves_of_the_tree(error, leaf):
    model = play(Script([[{"text": "before"}, {"error": error}]]))
    seen = []
    with pytest.raises(ModelError) as caught:
        async with model.stream(ask()) as events:
            async for event in events:
                seen.append(event)  # noqa: PERF401 - what came before the error counts
    assert type(caught.value) is leaf
    assert text_of(seen) == "before"


async def test_a_gate_parks_the_stream_and_leaving_closes_it():
    script = Script([[{"text": "a"}, {"gate": "mid"}, {"text": "b"}]])
    model = play(script)
    task = asyncio.get_running_loop().create_task(collect(model))
    await script.gate("mid").wait_reached()
    assert script.open_streams == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert script.open_streams == 0
    script.gate("mid").open()
    assert text_of(await collect(model, ask(session="other"))) == "ab"


@pytest.mark.parametrize("suffix", ["json", "toml"])
async def test_a_file_is_read_by_its_suffix(tmp_path, suffix):
    path = tmp_path / f"demo.{suffix}"
    path.write_text(
        {
            "json": '{"steps": [{"text": "hi"}], "small": true, "context_tokens": 9}',
            "toml": 'small = true\ncontext_tokens = 9\nsteps = [{text = "hi"}]',
        }[suffix]
    )
    model = ScriptedProvider(SystemClock()).model(str(path))
    assert (model.ref, model.small, model.context_tokens) == (f"scripted:{path}", True, 9)
    assert text_of(await collect(model)) == "hi"


async def test_a_gate_of_a_file_is_opened_by_a_file(tmp_path):
    path = tmp_path / "demo.json"
    path.write_text('[[{"gate": "go"}, {"text": "gone"}]]')
    (tmp_path / "demo.json.go.open").touch()
    assert text_of(await collect(ScriptedProvider(SystemClock()).model(str(path)))) == "gone"
    assert (tmp_path / "demo.json.go.reached").exists()


@pytest.mark.parametrize("content", ["{", '{"steps": [{"txt": "?"}]}', '{"steps": 3}', "\xff"])
def test_a_wrong_file_is_one_sentence(tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        ScriptedProvider(SystemClock()).model(str(path))
    assert str(path) in caught.value.message


@pytest.mark.parametrize("name", ["/nowhere.json", "~nobody-of-that-name/nowhere.json"])
def test_a_missing_file_is_named(name):
    with pytest.raises(ConfigError, match=r"nowhere\.json cannot be read"):
        ScriptedProvider(SystemClock()).model(name)
