"""The starter provider with a fake runtime child: start, share, crash, idle, prefix, events."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tenure.clock import SystemClock
from tenure.config import StarterConfig
from tenure.conversation import Message, ToolSpec
from tenure.errors import BadValue, ConfigError, ModelError, ModelOverloaded
from tenure.models.base import (
    Finished,
    ModelRequest,
    Progress,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
)
from tenure.models.starter import provider as provider_module
from tenure.models.starter.provider import StarterProvider
from tenure.processes.spawn import Spawner

pytestmark = pytest.mark.slow

FAKE = (sys.executable, str(Path(__file__).with_name("fake_runtime.py")))
TOOL = ToolSpec(
    "shell",
    "Run.",
    {
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    },
)


class Lab:
    """A provider with its fake, and what the fake was asked."""

    def __init__(self, folder, scope, mode="", **config):
        self.models = folder / "models"
        gguf = folder / "own.gguf"
        gguf.write_bytes(b"GGUF" + mode.encode())
        clock = SystemClock()
        environ = {"PATH": "/usr/bin:/bin"}
        self.provider = StarterProvider(
            StarterConfig(gguf=str(gguf), threads=1, **config),
            models=self.models,
            scope=scope,
            spawner=Spawner(instance="t", environ=environ, clock=clock),
            clock=clock,
            environ=environ,
            argv=FAKE,
        )

    @property
    def log(self):
        file = self.models / "states" / "log.jsonl"
        return [json.loads(x) for x in file.read_text().splitlines()] if file.exists() else []

    @property
    def starts(self):
        return [e["started"] for e in self.log if "started" in e]

    def asked(self, path="/v1/chat/completions"):
        return [e["body"] for e in self.log if e.get("path", "").startswith(path)]

    async def ask(self, text, tools=(TOOL,), **more):
        request = ModelRequest("system", (Message("user", text),), tools, **more)
        async with asyncio.timeout(30), self.provider.model("").stream(request) as events:
            return [event async for event in events]


@pytest.fixture
async def lab(tmp_path, scope):
    made = []

    def make(mode="", **config):
        made.append(Lab(tmp_path, scope, mode, **config))
        return made[-1]

    yield make
    for one in made:
        await one.provider.aclose()


def text_of(events):
    return "".join(e.text for e in events if isinstance(e, TextDelta))


async def test_an_answer_with_its_timings(lab):
    one = lab()
    events = await one.ask("hi")
    told = [e.text for e in events if isinstance(e, Progress)]
    assert told[0].startswith("loading own.gguf")
    assert told[-1].startswith("first word after")
    assert text_of(events) == "Hello!"
    assert (events[-1].reason, events[-1].usage.input) == ("stop", 300)
    assert one.provider.timings.prompt_s >= 0.25
    assert all(e["ok"] for e in one.log if "ok" in e)
    assert one.provider.model("").small


async def test_no_secret_is_in_an_argument(lab):
    one = lab()
    await one.ask("hi")
    [start] = [e for e in one.log if "started" in e]
    command_line = Path(f"/proc/{start['started']}/cmdline").read_bytes()
    assert command_line.split(b"\0")[1:] == [FAKE[1].encode(), b""]


async def test_the_prefix_is_read_once_and_kept_on_disk(lab):
    one = lab()
    await one.ask("hi")
    await one.ask("hi again")
    actions = [e["path"] for e in one.log if "slots" in e.get("path", "")]
    assert actions == [
        "/slots/0?action=save",
        "/slots/0?action=restore",
        "/slots/1?action=restore",
    ]
    assert [b["max_tokens"] for b in one.asked()] == [1, 2048, 2048]
    assert "hi" not in [m["content"] for m in one.asked()[0]["messages"]]  # only the prefix is kept
    await one.provider.aclose()
    second = lab()
    await second.ask("hi")
    actions = [e["path"] for e in second.log if "slots" in e.get("path", "")][3:]
    assert actions == ["/slots/0?action=restore", "/slots/1?action=restore"]
    assert [b["max_tokens"] for b in second.asked()][3:] == [2048]


async def test_a_damaged_state_is_forgotten(lab):
    one = lab()
    await one.ask("hi")
    [state] = (one.models / "states").glob("*.bin")
    state.write_text("torn")
    await one.provider.aclose()
    second = lab()
    assert text_of(await second.ask("hi")) == "Hello!"
    assert not state.exists()


async def test_old_states_are_forgotten(lab):
    one = lab()
    for n in range(7):
        request = ModelRequest(f"system {n}", (Message("user", "hi"),), (TOOL,))
        async with one.provider.model("").stream(request) as events:
            _ = [e async for e in events]
    assert len(list((one.models / "states").glob("*.bin"))) == 4


async def test_a_call(lab):
    events = await lab().ask("call it")
    [ready] = [e for e in events if isinstance(e, ToolCallReady)]
    assert (ready.call.name, ready.call.arguments) == ("shell", '{"command":"ls"}')
    assert [e.name for e in events if isinstance(e, ToolCallStarted)] == ["shell"]
    assert text_of(events) == ""
    assert (events[-1].reason, events[-1].usage.input) == ("tool_calls", 300)


async def test_a_call_after_prose_ends_the_answer(lab):
    events = await lab().ask("prose")
    assert text_of(events) == "I look.\n"
    assert [type(e) for e in events][-3:] == [ToolCallStarted, ToolCallReady, Finished]
    assert events[-1].reason == "tool_calls"


async def test_text_only_leaves_a_call_as_text(lab):
    one = lab()
    events = await one.ask("call it", text_only=True)
    assert "```json" in text_of(events)
    assert events[-1].reason == "stop"
    assert "call" not in one.asked()[-1]["grammar"]


async def test_one_runtime_serves_many(lab):
    one = lab()
    await asyncio.gather(*(one.ask("hi") for _ in range(4)))
    assert len(one.starts) == 1
    assert sorted(b["max_tokens"] for b in one.asked()) == [1, 2048, 2048, 2048, 2048]


async def test_it_stops_when_nobody_uses_it(lab):
    one = lab(idle_s=0.0)
    await one.ask("hi")
    while one.provider.loaded("") is not None:
        await asyncio.sleep(0.01)
    await one.ask("hi")
    assert len(one.starts) == 2


async def test_a_crash_before_the_first_word_starts_it_again_once(lab):
    one = lab()
    await one.ask("hi")
    with pytest.raises(ModelOverloaded, match="ended by itself with status 9"):
        await one.ask("die")
    assert len(one.starts) == 2  # the second one died too
    assert text_of(await one.ask("hi")) == "Hello!"
    assert len(one.starts) == 3


async def test_crashes_are_limited(lab, monkeypatch):
    monkeypatch.setattr(provider_module, "CRASHES_MAX", 1)
    one = lab()
    with pytest.raises(ModelOverloaded):
        await one.ask("die")
    with pytest.raises(ModelError, match="crashed 2 times within 5 minutes"):
        await one.ask("hi")


async def test_leaving_the_stream_lets_go_of_the_runtime(lab):
    one = lab(idle_s=0.0)
    request = ModelRequest("", (Message("user", "slow"),))
    async with one.provider.model("").stream(request) as events:
        while not isinstance(await anext(events), TextDelta):
            pass
    while one.provider.loaded("") is not None:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("fails", "The fake cannot load this"),
        ("dies", "status 7.*out of luck"),
        ("babbles", "does not speak our protocol"),
    ],
)
async def test_a_start_that_fails_leaves_nothing(lab, mode, words):
    one = lab(mode)
    with pytest.raises(ModelError, match=words):
        await one.ask("hi")
    assert one.provider.loaded("") is None


async def test_a_start_that_takes_too_long(lab):
    one = lab("mute", start_timeout_s=0.2)
    with pytest.raises(ModelError, match="not ready within"):
        await one.ask("hi")
    assert not [entry for entry in one.provider.scope.census() if entry.pid]


async def test_a_cancelled_start_leaves_nothing(lab):
    one = lab("mute")
    task = asyncio.get_running_loop().create_task(one.ask("hi"))
    while not [e for e in one.provider.scope.census() if e.pid]:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await one.provider.aclose()


async def test_preloading_takes_the_prefix_too(lab):
    one = lab()
    await one.provider.preload("", ModelRequest("system", (), (TOOL,)))
    assert one.provider.loaded("") is not None
    before = len(one.asked())
    events = await one.ask("hi")
    assert len(one.asked()) == before + 1
    assert not [e for e in events if isinstance(e, Progress) and "loading" in e.text]


async def test_missing_weights_name_the_ways_out(tmp_path, scope):
    one = Lab(tmp_path, scope)
    one.provider._config = StarterConfig()
    with pytest.raises(ModelError, match="tenure model pull") as caught:
        await one.ask("hi")
    for word in ("tenure model login", "OpenAI-compatible", "gguf", "1.1 GB"):
        assert word in caught.value.message
    with pytest.raises(BadValue, match=r"qwen2\.5-coder-1\.5b"):
        one.provider.model("gpt")
    await one.provider.aclose()


@pytest.mark.parametrize(("content", "words"), [(None, "cannot be read"), (b"PK", "not a GGUF")])
async def test_a_file_of_the_users_own_is_checked(tmp_path, scope, content, words):
    one = Lab(tmp_path, scope)
    file = tmp_path / "own.gguf"
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        await one.ask("hi")
    await one.provider.aclose()


async def test_little_memory_is_told(lab, monkeypatch):
    monkeypatch.setattr(provider_module, "ROOMY_BYTES", 1 << 60)
    events = await lab().ask("hi")
    assert "of memory are free" in events[0].text
