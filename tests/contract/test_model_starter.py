"""The real runtime with a real, tiny model (98 MB, fetched once into the user's cache)."""

import asyncio
import os
import signal

import pytest

from support.needs import missing, need
from tenure.clock import SystemClock
from tenure.config import StarterConfig, find_home, read_environment
from tenure.conversation import Message, ToolSpec
from tenure.errors import ModelError
from tenure.lifecycle.scope import Scope
from tenure.models.base import Finished, ModelRequest, Progress, TextDelta
from tenure.models.starter.download import Downloader
from tenure.models.starter.provider import StarterProvider
from tenure.models.starter.runtime import missing_flags
from tenure.models.starter.sources import sources
from tenure.models.starter.weights import SMOL, find
from tenure.processes.spawn import Spawner

pytestmark = [pytest.mark.starter, pytest.mark.slow, pytest.mark.timeout(900)]  # a download

ASK = ModelRequest("Be brief.", (Message("user", "Say hello."),), max_tokens=8, session_id="s")


@pytest.fixture
async def scope():
    async with Scope.root("test", SystemClock()) as root:
        yield root


@pytest.fixture
def spawner():
    return Spawner(instance="starter-test", environ=read_environment(), clock=SystemClock())


@pytest.fixture
async def models(tmp_path, scope, spawner):
    """A folder with the tiny model in it, and nothing of earlier runs."""
    need("xllamacpp")
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        if missing_flags(cpuinfo.read()):
            missing("this processor cannot run the starter model")
    cache = find_home(read_environment()).models
    if find(cache, "", SMOL.name) is None:
        downloader = Downloader(
            cache,
            scope=scope,
            spawner=spawner,
            clock=SystemClock(),
            environ=read_environment(),
            on_progress=lambda _: None,
            offered=[s for s in sources() if s.known is SMOL],
        )
        try:
            await downloader.fetch()
        except ModelError as exc:
            missing(exc.message)
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / SMOL.file).symlink_to(cache / SMOL.file)
    return folder


@pytest.fixture
async def make(models, scope, spawner):
    made = []

    def make():
        made.append(
            StarterProvider(
                StarterConfig(threads=1),  # two wait for each other where another test runs, too
                models=models,
                scope=scope,
                spawner=spawner,
                clock=SystemClock(),
                environ={},
            )
        )
        return made[-1]

    yield make
    for one in made:
        await one.aclose()


async def collect(provider, request=ASK):
    async with provider.model(SMOL.name).stream(request) as events:
        return [event async for event in events]


def text_of(events):
    return "".join(e.text for e in events if isinstance(e, TextDelta))


async def test_it_answers_and_says_where_the_time_went(make):
    provider = make()
    events = await collect(provider)
    assert text_of(events).strip()
    assert isinstance(events[-1], Finished)
    assert events[-1].usage.output > 0
    assert [e.text for e in events if isinstance(e, Progress)][-1].startswith("first word after")
    assert provider.timings.load_s > 0


async def test_the_next_start_finds_its_prefix_on_disk(make, models):
    provider = make()
    await collect(provider)
    states = list((models / "states").glob("*.bin"))
    assert len(states) == 1
    await provider.aclose()
    cached = (await collect(make()))[-1].usage.cached
    assert cached > 0
    assert list((models / "states").glob("*.bin")) == states


async def test_tools_are_left_out_for_the_tiny_model(make):
    tool = ToolSpec("shell", "Run.", {"type": "object", "properties": {}})
    events = await collect(make(), ModelRequest("", ASK.messages, (tool,), max_tokens=8))
    assert events[-1].reason in {"stop", "length"}


async def test_a_cancelled_answer_frees_the_slot(make):
    provider = make()
    long = ModelRequest("", (Message("user", "Tell me a very long story."),), max_tokens=1_500)
    for _ in range(3):  # more than there are slots
        async with provider.model(SMOL.name).stream(long) as events:
            while not isinstance(await anext(events), TextDelta):
                pass
    async with asyncio.timeout(60):
        assert isinstance((await collect(provider))[-1], Finished)


async def test_a_killed_runtime_is_started_again(make):
    provider = make()
    await collect(provider)
    [pid] = [entry.pid for entry in provider.scope.census() if entry.pid]
    os.kill(pid, signal.SIGKILL)
    assert text_of(await collect(provider)).strip()
    assert [e.pid for e in provider.scope.census() if e.pid] != [pid]


async def test_too_long_a_prompt_is_one_sentence(make):
    request = ModelRequest("", (Message("user", "word " * 6_000),))
    with pytest.raises(ModelError) as caught:
        await collect(make(), request)
    assert "\n" not in caught.value.message


async def test_a_file_that_is_no_model_says_so(models, scope, spawner):
    bad = models / "bad.gguf"
    bad.write_bytes(b"GGUF" + b"\0" * 64)
    provider = StarterProvider(
        StarterConfig(gguf=str(bad)),
        models=models,
        scope=scope,
        spawner=spawner,
        clock=SystemClock(),
        environ={},
    )
    with pytest.raises(ModelError, match=r"bad\.gguf cannot be loaded"):
        async with provider.model("").stream(ASK) as events:
            _ = [e async for e in events]
    await provider.aclose()
